/**
 * `pi:hostcall`: the hostcalls of a realm.
 *
 * `call` sends a `host_call` message and returns a promise; `callSync` is a nested request inside the running macrotask. Both
 * reject or throw a `HostcallError` with a code of the taxonomy (`timeout`, `denied`, `io`, `invalid_request`, `internal`).
 * `tryCallSync` returns the failure, for callers that handle it themselves: an error captures a stack, which takes longer than
 * the call.
 * `pi:runtime` passes each result and each `timer_fired` and `signal_aborted` message to `onResult`, `onTimer` and
 * `onSignalAborted`.
 * Invariant: a call settles once. When its signal fires, the call is dropped, so results in flight are ignored.
 */

import { call as engineCall, callPromise, send, tryCallSync as engineTryCallSync } from "pi:engine";
import type { Failure } from "pi:engine";
import { AbortController } from "pi:web/abort";
import type { AbortSignal } from "pi:web/abort";
import { bind, tracks } from "pi:web/contexts";
import { SafeMap } from "pi:web/safe";
import { runTicks } from "pi:web/ticks";
import { fireTimer } from "pi:web/timers";

/** An answer: JSON, and the raw attachments that `{"$bytes": i}` inside it refers to. */
export interface Answer {
  output: any;
  bytes: Uint8Array[];
}

/** One piece of a streaming answer. Pieces arrive in order. */
export interface AnswerChunk extends Answer {
  index: number;
  isLast: boolean;
}

export interface CallOptions {
  /** Attachments that `{"$bytes": i}` in the parameters refers to. */
  bytes?: Uint8Array[] | undefined;
  /** Cancels the call; the promise rejects with the signal's reason. */
  signal?: AbortSignal | undefined;
  /** Time limit of the host operation, in milliseconds. */
  timeoutMs?: number | undefined;
  /** Receives every chunk, including the last one, before the promise settles. */
  onChunk?: ((chunk: AnswerChunk) => void) | undefined;
}

/** A refusal or failure that the host reported. */
export class HostcallError extends Error {
  readonly code: string;
  readonly retryable: boolean;
  readonly details: Record<string, any>;

  constructor(error: Partial<Failure>) {
    super(error.message ?? "hostcall failed");
    this.code = error.code ?? "internal";
    this.retryable = error.retryable ?? false;
    this.details = error.details ?? {};
  }

  override get name(): string {
    return "HostcallError";
  }
}

interface Pending {
  resolve(answer: Answer): void;
  reject(reason: unknown): void;
  onChunk: ((chunk: AnswerChunk) => void) | undefined;
  release: (() => void) | undefined;
}

const pending = new SafeMap<string, Pending>();

/** Captured before any extension runs. */
const { Promise } = globalThis;

/** Operation and parameters of a method; any object for an untyped method. */
export type Params<Method extends string> = Method extends keyof Hostcalls ? Hostcalls[Method] : object;

/** Makes a hostcall and waits for its end. `capability` is the one that the caller claims to need. */
export function call<Method extends string>(
  method: Method,
  capability: string,
  params: Params<Method>,
  options?: CallOptions,
): Promise<Answer> {
  const signal = options?.signal;
  const timeoutMs = options?.timeoutMs;
  const onChunk = options?.onChunk;
  if (signal?.aborted) return Promise.reject(signal.reason);
  const limit = timeoutMs !== undefined && timeoutMs > 0 ? Math.ceil(timeoutMs) : undefined;
  if (!signal && !onChunk && !tracks) {
    try {
      return callPromise(method, capability, params, options?.bytes, limit);
    } catch (error) {
      return Promise.reject(asHostcallError(error));
    }
  }
  return new Promise((resolve, reject) => {
    let callId: string;
    try {
      callId = engineCall(method, capability, params, options?.bytes, limit);
    } catch (error) {
      reject(asHostcallError(error));
      return;
    }
    const entry: Pending = { resolve, reject, onChunk: bind(onChunk), release: undefined };
    pending.set(callId, entry);
    if (!signal) return;
    const cancel = () => {
      pending.delete(callId);
      send({ type: "host_call_cancel", payload: { call_id: callId } });
      reject(signal.reason);
    };
    // Reading the parameters may run code that aborts the call.
    if (signal.aborted) {
      cancel();
      return;
    }
    signal.addEventListener("abort", cancel, { once: true });
    entry.release = () => signal.removeEventListener("abort", cancel);
  });
}

/** The answer of a synchronous hostcall, or its failure. */
export type Outcome = (Answer & { error?: undefined }) | { error: Failure };

/** Makes a hostcall and returns its answer or its failure before any other code runs. */
export function tryCallSync<Method extends string>(
  method: Method,
  capability: string,
  params: Params<Method>,
  bytes?: Uint8Array[],
): Outcome {
  return engineTryCallSync(method, capability, params, bytes);
}

/** Makes a hostcall and returns its answer before any other code runs. */
export function callSync<Method extends string>(
  method: Method,
  capability: string,
  params: Params<Method>,
  bytes?: Uint8Array[],
): Answer {
  const outcome = engineTryCallSync(method, capability, params, bytes);
  if (outcome.error !== undefined) throw new HostcallError(outcome.error);
  return outcome;
}

function asHostcallError(error: unknown): unknown {
  if (error instanceof HostcallError) return error;
  const shape = error as { code?: unknown; message?: string } | null;
  return shape && typeof shape.code === "string" ? new HostcallError(shape as { code: string }) : error;
}

/** Returns the error that rejects a call whose promise the engine keeps. */
export function failure(error: Failure): HostcallError {
  return new HostcallError(error);
}

/** Settles a call, or passes a chunk to its callback. Results of dropped calls are ignored. */
export function onResult(
  callId: string,
  output: any,
  bytes: Uint8Array[],
  error?: Failure,
  chunk?: { index: number; is_last: boolean },
): void {
  const entry = pending.get(callId);
  if (!entry) return;
  const isFinal = error !== undefined || !chunk || chunk.is_last;
  if (isFinal) {
    pending.delete(callId);
    entry.release?.();
  }
  try {
    if (error !== undefined) {
      entry.reject(new HostcallError(error));
      return;
    }
    if (chunk && entry.onChunk) entry.onChunk({ output, bytes, index: chunk.index, isLast: chunk.is_last });
    if (isFinal) entry.resolve({ output, bytes });
  } finally {
    runTicks();
  }
}

/** Handles `timer_fired`: runs the callback of the timer if it is still armed. */
export function onTimer(id: number): void {
  try {
    fireTimer(id);
  } finally {
    runTicks();
  }
}

const hostSignals = new SafeMap<number, AbortController>();

/** Returns the signal with the number in the host's message: `{"$signal": n}`. */
export function hostSignal(id: number): AbortSignal {
  let controller = hostSignals.get(id);
  if (!controller) hostSignals.set(id, (controller = new AbortController()));
  return controller.signal;
}

/** Drops a signal of the host once the call that it belongs to has ended. */
export function releaseSignal(id: number): void {
  hostSignals.delete(id);
}

/** Handles `signal_aborted`. */
export function onSignalAborted(id: number): void {
  try {
    hostSignals.get(id)?.abort();
  } finally {
    hostSignals.delete(id);
    runTicks();
  }
}

/** Adds an attachment. Returns the reference to it for parameters. */
export function attach(bytes: Uint8Array[], data: Uint8Array): { $bytes: number } {
  return { $bytes: bytes.push(data) - 1 };
}

/** Returns the bytes of a value in an output: an attachment, or text as UTF-8. */
export function bytesOf(answer: Answer, value: any): Uint8Array | undefined {
  return value !== null && typeof value === "object" && typeof value.$bytes === "number"
    ? answer.bytes[value.$bytes]
    : undefined;
}
