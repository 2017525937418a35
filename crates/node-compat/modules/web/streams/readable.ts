/**
 * `pi:web/streams/readable`: ReadableStream, its controllers and readers, tee and pipeTo.
 *
 * In a byte stream (`type: "bytes"`), the controller takes byte views, and a BYOB reader fills the
 * caller's own view; in other respects it is the same queue.
 */

import type { AbortSignal } from "pi:web/abort";
import {
  INSPECT, STATE, SizedQueue, attempt, coded, deferred, handled, illegalConstructor, invalidState, markOf, sizeOf,
} from "pi:web/streams/queue";
import type { Deferred, Strategy } from "pi:web/streams/queue";
import { WritableStream } from "pi:web/streams/writable";

const BUILD = Symbol("build");

export interface Source {
  start?(controller: any): unknown;
  pull?(controller: any): unknown;
  cancel?(reason: any): unknown;
  type?: "bytes" | undefined;
  autoAllocateChunkSize?: number;
}

interface Request {
  /** The view to fill, for a BYOB read. */
  view?: Uint8Array | undefined;
  Type?: any;
  filled: number;
  least: number;
  done: Deferred<{ value: any; done: boolean }>;
}

class State {
  phase: "readable" | "closed" | "errored" = "readable";
  error: any = undefined;
  disturbed = false;
  reader: any = undefined;
  requests: Request[] = [];
  queue = new SizedQueue<any>();
  started = false;
  pulling = false;
  pullAgain = false;
  closeRequested = false;
  bytes: boolean;
  source: Source | undefined;
  mark: number;
  size: (chunk: any) => number;
  controller: any;
  byob: ReadableStreamBYOBRequest | null = null;
  readonly over: Deferred = deferred();

  constructor(source: Source, strategy: Strategy | undefined) {
    this.source = source;
    this.bytes = source.type === "bytes";
    if (this.bytes && strategy?.size !== undefined) throw coded(RangeError, "ERR_INVALID_ARG_VALUE", "The property 'strategy.size' is invalid for a byte stream");
    this.size = this.bytes ? (chunk) => chunk.byteLength : sizeOf(strategy);
    this.mark = markOf(strategy, this.bytes ? 0 : 1);
    handled(this.over.promise);
  }

  get desired(): number | null {
    return this.phase === "errored" ? null : this.phase === "closed" ? 0 : this.mark - this.queue.total;
  }
  get canTake(): boolean {
    return this.phase === "readable" && !this.closeRequested;
  }

  pullIfNeeded(): void {
    if (!this.canTake || !this.started) return;
    if (this.requests.length === 0 && (this.desired ?? 0) <= 0) return;
    if (this.pulling) {
      this.pullAgain = true;
      return;
    }
    this.pulling = true;
    attempt(() => this.source?.pull?.(this.controller)).then(
      () => {
        this.pulling = false;
        if (this.pullAgain) {
          this.pullAgain = false;
          this.pullIfNeeded();
        }
      },
      (error) => this.fail(error),
    );
  }

  enqueue(chunk: any): void {
    const request = this.requests[0];
    if (request && this.queue.items.length === 0 && !request.view) {
      this.requests.shift();
      request.done.resolve({ value: chunk, done: false });
    } else {
      try {
        this.queue.add(chunk, this.size(chunk));
      } catch (error) {
        this.fail(error);
        throw error;
      }
      this.serve();
    }
    this.pullIfNeeded();
  }

  /** Completes pending reads from the queue. */
  serve(): void {
    while (this.requests.length > 0 && this.queue.items.length > 0) {
      const request = this.requests[0]!;
      if (!request.view) {
        this.requests.shift();
        request.done.resolve({ value: this.queue.take(), done: false });
        continue;
      }
      while (this.queue.items.length > 0 && request.filled < request.view.length) {
        const head = this.queue.items[0]!;
        const count = Math.min(head.value.length, request.view.length - request.filled);
        request.view.set(head.value.subarray(0, count), request.filled);
        request.filled += count;
        this.queue.total -= count;
        if (count === head.value.length) this.queue.items.shift();
        else head.value = head.value.subarray(count);
      }
      if (request.filled < request.least) return;
      this.requests.shift();
      request.done.resolve({ value: viewOf(request), done: false });
    }
    if (this.closeRequested && this.queue.items.length === 0) this.end();
  }

  close(): void {
    this.closeRequested = true;
    if (this.queue.items.length === 0) this.end();
  }

  end(): void {
    if (this.phase !== "readable") return;
    this.phase = "closed";
    this.source = undefined;
    for (const request of this.requests.splice(0)) {
      const value = request.view ? viewOf(request) : undefined;
      request.done.resolve({ value, done: request.filled === 0 });
    }
    this.over.resolve();
    this.reader?.[STATE].closed.resolve();
  }

  fail(error: any): void {
    if (this.phase !== "readable") return;
    this.phase = "errored";
    this.error = error;
    this.source = undefined;
    this.queue.clear();
    for (const request of this.requests.splice(0)) request.done.reject(error);
    this.over.reject(error);
    if (this.reader) {
      handled(this.reader[STATE].closed.promise);
      this.reader[STATE].closed.reject(error);
    }
  }

  cancel(reason: any): Promise<void> {
    this.disturbed = true;
    if (this.phase === "closed") return Promise.resolve();
    if (this.phase === "errored") return Promise.reject(this.error);
    const { source } = this;
    this.queue.clear();
    for (const request of this.requests) if (request.view) request.filled = 0;
    const requests = this.requests.splice(0);
    this.end();
    for (const request of requests) request.done.resolve({ value: undefined, done: true });
    return attempt(() => source?.cancel?.(reason)).then(() => undefined);
  }

  read(view?: ArrayBufferView, least: number = 1): Promise<{ value: any; done: boolean }> {
    this.disturbed = true;
    const request: Request = { filled: 0, least: 1, done: deferred() };
    if (view) {
      const { buffer, byteOffset, byteLength } = view;
      request.view = new Uint8Array((buffer as any).transfer(), byteOffset, byteLength);
      request.Type = (view as any).constructor;
      request.least = Math.max(1, least) * ((view as any).BYTES_PER_ELEMENT ?? 1);
    }
    if (this.phase === "errored") return Promise.reject(this.error);
    if (this.phase === "closed") return Promise.resolve({ value: request.view ? viewOf(request) : undefined, done: true });
    this.requests.push(request);
    this.serve();
    if (this.phase === "readable") this.pullIfNeeded();
    return request.done.promise;
  }
}

function viewOf({ view, Type, filled }: Request): ArrayBufferView {
  if (Type === DataView) return new DataView(view!.buffer, view!.byteOffset, filled);
  return new Type(view!.buffer, view!.byteOffset, Math.floor(filled / (Type.BYTES_PER_ELEMENT ?? 1)));
}

export class ReadableStream {
  [STATE]: State;

  constructor(source: Source = {}, strategy?: Strategy) {
    if (source === null || typeof source !== "object") throw coded(TypeError, "ERR_INVALID_ARG_TYPE", 'The "source" argument must be of type object.');
    if (source.type !== undefined && String(source.type) !== "bytes") {
      throw coded(TypeError, "ERR_INVALID_ARG_VALUE", `The property 'source.type' is invalid. Received '${String(source.type)}'`);
    }
    const state = new State(source, strategy);
    Object.defineProperty(this, STATE, { enumerable: false });
    this[STATE] = state;
    state.controller = state.bytes ? new ReadableByteStreamController(BUILD, state) : new ReadableStreamDefaultController(BUILD, state);
    const begun = source.start?.(state.controller);
    Promise.resolve(begun).then(
      () => {
        state.started = true;
        state.pullIfNeeded();
      },
      (error) => state.fail(error),
    );
  }

  /** Returns a stream of the items in an iterable. */
  static from(iterable: any): ReadableStream {
    const isAsync = typeof iterable?.[Symbol.asyncIterator] === "function";
    if (!isAsync && typeof iterable?.[Symbol.iterator] !== "function") throw coded(TypeError, "ERR_ARG_NOT_ITERABLE", `${String(iterable)} must be iterable`);
    const iterator = isAsync ? iterable[Symbol.asyncIterator]() : iterable[Symbol.iterator]();
    return new ReadableStream(
      {
        async pull(controller) {
          const { value, done } = await iterator.next();
          if (done) controller.close();
          else controller.enqueue(await value);
        },
        async cancel(reason) {
          await iterator.return?.(reason);
        },
      },
      { highWaterMark: 0 },
    );
  }

  get locked(): boolean {
    return this[STATE].reader !== undefined;
  }
  cancel(reason?: any): Promise<void> {
    if (this.locked) return Promise.reject(invalidState("ReadableStream is locked"));
    return this[STATE].cancel(reason);
  }
  getReader(options: { mode?: "byob" } = {}): any {
    if (options?.mode === undefined) return new ReadableStreamDefaultReader(this);
    if (String(options.mode) !== "byob") throw coded(TypeError, "ERR_INVALID_ARG_VALUE", `The property 'options.mode' is invalid. Received '${String(options.mode)}'`);
    return new ReadableStreamBYOBReader(this);
  }
  pipeThrough<T extends { readable: any; writable: any }>(transform: T, options: PipeOptions = {}): T["readable"] {
    if (!(transform?.readable instanceof ReadableStream)) throw coded(TypeError, "ERR_INVALID_ARG_TYPE", 'The "transform.readable" property must be an instance of ReadableStream.');
    if (!(transform.writable instanceof WritableStream)) throw coded(TypeError, "ERR_INVALID_ARG_TYPE", 'The "transform.writable" property must be an instance of WritableStream.');
    if (this.locked) throw invalidState("The ReadableStream is locked");
    if (transform.writable.locked) throw invalidState("The WritableStream is locked");
    handled(pipe(this, transform.writable, options));
    return transform.readable;
  }
  pipeTo(target: WritableStream, options: PipeOptions = {}): Promise<void> {
    if (!(target instanceof WritableStream)) return Promise.reject(coded(TypeError, "ERR_INVALID_ARG_TYPE", 'The "destination" argument must be an instance of WritableStream.'));
    if (this.locked) return Promise.reject(invalidState("The ReadableStream is locked"));
    if (target.locked) return Promise.reject(invalidState("The WritableStream is locked"));
    return pipe(this, target, options);
  }
  tee(): [ReadableStream, ReadableStream] {
    return tee(this);
  }
  values(options: { preventCancel?: boolean } = {}): AsyncIterableIterator<any> {
    return iterate(this, Boolean(options?.preventCancel));
  }
  [Symbol.asyncIterator](options: { preventCancel?: boolean } = {}): AsyncIterableIterator<any> {
    return this.values(options);
  }
  get [Symbol.toStringTag](): string {
    return "ReadableStream";
  }
  get [Symbol.for("nodejs.webstream.isClosedPromise")](): Deferred {
    return this[STATE].over;
  }
  get [Symbol.for("nodejs.stream.disturbed")](): boolean {
    return this[STATE].disturbed;
  }
  get [Symbol.for("nodejs.stream.errored")](): boolean {
    return this[STATE].phase === "errored";
  }
  get [Symbol.for("nodejs.stream.readable")](): boolean {
    return this[STATE].phase === "readable";
  }
  [Symbol.for("nodejs.webstream.controllerErrorFunction")](error: any): void {
    this[STATE].fail(error);
  }
  [INSPECT](_depth: number, options: object, inspect: (value: unknown, options: object) => string): string {
    const { phase, bytes } = this[STATE];
    return `ReadableStream ${inspect({ locked: this.locked, state: phase, supportsBYOB: bytes }, options)}`;
  }
}

abstract class Controller {
  [STATE]: State;

  constructor(key: unknown, state: State) {
    if (key !== BUILD) throw illegalConstructor();
    Object.defineProperty(this, STATE, { enumerable: false });
    this[STATE] = state;
  }
  get desiredSize(): number | null {
    return this[STATE].desired;
  }
  close(): void {
    if (!this[STATE].canTake) throw invalidState("Controller is already closed");
    this[STATE].close();
  }
  error(error?: any): void {
    this[STATE].fail(error);
  }
}

export class ReadableStreamDefaultController extends Controller {
  enqueue(chunk?: any): void {
    if (!this[STATE].canTake) throw invalidState("Controller is already closed");
    this[STATE].enqueue(chunk);
  }
  get [Symbol.toStringTag](): string {
    return "ReadableStreamDefaultController";
  }
}

export class ReadableByteStreamController extends Controller {
  /** Returns the view of the oldest pending BYOB read. */
  get byobRequest(): ReadableStreamBYOBRequest | null {
    const state = this[STATE];
    const request = state.requests[0];
    if (!request?.view) return null;
    if (state.byob?.[STATE].request !== request) state.byob = new ReadableStreamBYOBRequest(BUILD, state, request);
    return state.byob;
  }
  enqueue(chunk: ArrayBufferView): void {
    if (!ArrayBuffer.isView(chunk)) throw coded(TypeError, "ERR_INVALID_ARG_TYPE", 'The "chunk" argument must be an instance of Buffer, TypedArray, or DataView.');
    if (chunk.byteLength === 0) throw invalidState("chunk ArrayBuffer is zero-length or detached");
    if (!this[STATE].canTake) throw invalidState("Controller is already closed");
    const bytes = new Uint8Array(chunk.buffer, chunk.byteOffset, chunk.byteLength);
    this[STATE].enqueue(bytes);
  }
  get [Symbol.toStringTag](): string {
    return "ReadableByteStreamController";
  }
}

export class ReadableStreamBYOBRequest {
  [STATE]: { state: State; request: Request; view: Uint8Array | null };

  constructor(key: unknown, state: State, request: Request) {
    if (key !== BUILD) throw illegalConstructor();
    Object.defineProperty(this, STATE, { enumerable: false });
    this[STATE] = { state, request, view: request.view!.subarray(request.filled) };
  }
  get view(): Uint8Array | null {
    return this[STATE].view;
  }
  respond(count: number): void {
    const { state, request, view } = this[STATE];
    if (!view) throw invalidState("This BYOB request has been invalidated");
    if (count > view.length) throw coded(RangeError, "ERR_INVALID_ARG_VALUE", `The argument 'bytesWritten' is invalid. Received ${count}`);
    this[STATE].view = null;
    state.byob = null;
    request.filled += count;
    if (request.filled >= request.least || state.closeRequested) {
      state.requests.shift();
      request.done.resolve({ value: viewOf(request), done: request.filled === 0 });
    }
    state.pullIfNeeded();
  }
  respondWithNewView(view: ArrayBufferView): void {
    const bytes = new Uint8Array(view.buffer, view.byteOffset, view.byteLength);
    this[STATE].view?.set(bytes);
    this.respond(bytes.length);
  }
  get [Symbol.toStringTag](): string {
    return "ReadableStreamBYOBRequest";
  }
}

abstract class Reader {
  [STATE]: { stream: ReadableStream | undefined; closed: Deferred };

  constructor(stream: ReadableStream) {
    if (!(stream instanceof ReadableStream)) throw coded(TypeError, "ERR_INVALID_ARG_TYPE", 'The "stream" argument must be an instance of ReadableStream.');
    if (stream.locked) throw invalidState("ReadableStream is locked");
    const state = stream[STATE];
    const closed = deferred();
    Object.defineProperty(this, STATE, { enumerable: false });
    this[STATE] = { stream, closed };
    state.reader = this;
    if (state.phase === "closed") closed.resolve();
    else if (state.phase === "errored") {
      handled(closed.promise);
      closed.reject(state.error);
    }
  }
  get closed(): Promise<void> {
    return this[STATE].closed.promise;
  }
  cancel(reason?: any): Promise<void> {
    const { stream } = this[STATE];
    if (!stream) return Promise.reject(invalidState("The reader is not attached to a stream"));
    return stream[STATE].cancel(reason);
  }
  releaseLock(): void {
    const { stream, closed } = this[STATE];
    if (!stream) return;
    const error = invalidState("Releasing reader");
    const state = stream[STATE];
    if (state.phase !== "readable") this[STATE].closed = deferred();
    const current = state.phase === "readable" ? closed : this[STATE].closed;
    handled(current.promise);
    current.reject(error);
    for (const request of state.requests.splice(0)) request.done.reject(error);
    state.reader = undefined;
    this[STATE].stream = undefined;
  }
}

export class ReadableStreamDefaultReader extends Reader {
  read(): Promise<{ value: any; done: boolean }> {
    const { stream } = this[STATE];
    if (!stream) return Promise.reject(invalidState("The reader is not attached to a stream"));
    return stream[STATE].read();
  }
  get [Symbol.toStringTag](): string {
    return "ReadableStreamDefaultReader";
  }
}

export class ReadableStreamBYOBReader extends Reader {
  constructor(stream: ReadableStream) {
    if (stream instanceof ReadableStream && !stream[STATE].bytes) throw coded(TypeError, "ERR_INVALID_ARG_VALUE", "The argument 'stream' must be a byte stream.");
    super(stream);
  }
  read(view: ArrayBufferView, options: { min?: number } = {}): Promise<{ value: any; done: boolean }> {
    const { stream } = this[STATE];
    if (!ArrayBuffer.isView(view)) return Promise.reject(coded(TypeError, "ERR_INVALID_ARG_TYPE", 'The "view" argument must be an instance of Buffer, TypedArray, or DataView.'));
    if (view.byteLength === 0) return Promise.reject(invalidState("View or ArrayBuffer is zero-length or detached"));
    if (!stream) return Promise.reject(invalidState("The reader is not attached to a stream"));
    return stream[STATE].read(view, options?.min);
  }
  get [Symbol.toStringTag](): string {
    return "ReadableStreamBYOBReader";
  }
}

function iterate(stream: ReadableStream, preventCancel: boolean): AsyncIterableIterator<any> {
  const reader = new ReadableStreamDefaultReader(stream);
  let last: Promise<any> = Promise.resolve();
  let ended = false;
  const queue = <T>(step: () => Promise<T>): Promise<T> => {
    const next = last.then(step, step);
    last = next;
    return next;
  };
  return {
    next: () =>
      queue(async () => {
        if (ended) return { value: undefined, done: true };
        try {
          const result = await reader.read();
          if (result.done) {
            ended = true;
            reader.releaseLock();
          }
          return result;
        } catch (error) {
          ended = true;
          reader.releaseLock();
          throw error;
        }
      }),
    return: (value?: any) =>
      queue(async () => {
        if (!ended) {
          ended = true;
          const cancelled = preventCancel ? undefined : reader.cancel(value);
          reader.releaseLock();
          await cancelled;
        }
        return { value, done: true };
      }),
    [Symbol.asyncIterator]() {
      return this;
    },
  } as AsyncIterableIterator<any>;
}

function tee(stream: ReadableStream): [ReadableStream, ReadableStream] {
  const reader = new ReadableStreamDefaultReader(stream);
  const { bytes } = stream[STATE];
  const branches: ReadableStream[] = [];
  const controllers: any[] = [];
  const cancelled: [boolean, boolean] = [false, false];
  const reasons: any[] = [];
  const both = deferred();
  let reading = false;
  let again = false;
  const finish = () => {
    for (const [at, controller] of controllers.entries()) if (!cancelled[at as 0 | 1]) controller.close();
    if (!cancelled[0] || !cancelled[1]) both.resolve();
  };
  const pull = async (): Promise<void> => {
    if (reading) {
      again = true;
      return;
    }
    reading = true;
    try {
      const { value, done } = await reader.read();
      reading = false;
      if (done) return finish();
      for (const [at, controller] of controllers.entries()) {
        if (!cancelled[at as 0 | 1]) controller.enqueue(bytes && at === 1 ? value.slice() : value);
      }
      if (again) {
        again = false;
        void pull();
      }
    } catch {
      // The reader's `closed` promise notifies both branches.
      reading = false;
    }
  };
  for (const at of [0, 1] as const) {
    branches.push(
      new ReadableStream(
        {
          type: bytes ? "bytes" : undefined,
          start(controller) {
            controllers.push(controller);
          },
          pull,
          cancel(reason) {
            cancelled[at] = true;
            reasons[at] = reason;
            if (cancelled[0] && cancelled[1]) stream[STATE].cancel(reasons).then(() => both.resolve(), both.reject);
            return both.promise;
          },
        },
        bytes ? { highWaterMark: 0 } : undefined,
      ),
    );
  }
  reader.closed.catch((error) => {
    for (const controller of controllers) controller.error(error);
    if (!cancelled[0] || !cancelled[1]) both.resolve();
  });
  return [branches[0]!, branches[1]!];
}

interface PipeOptions {
  preventClose?: boolean;
  preventAbort?: boolean;
  preventCancel?: boolean;
  signal?: AbortSignal;
}

/** Reads and writes until one side ends, then closes or aborts the other side according to the options. */
async function pipe(source: ReadableStream, target: WritableStream, options: PipeOptions): Promise<void> {
  const { preventClose, preventAbort, preventCancel, signal } = options ?? {};
  const reader = new ReadableStreamDefaultReader(source);
  const writer = target.getWriter();
  source[STATE].disturbed = true;
  const stop = deferred<never>();
  handled(stop.promise);
  let aborted = false;
  const abort = () => {
    aborted = true;
    stop.reject(signal!.reason);
  };
  if (signal?.aborted) abort();
  else signal?.addEventListener("abort", abort, { once: true });
  let writing: Promise<unknown> = Promise.resolve();
  const shut = async (failure: { error: any } | undefined, actions: (() => Promise<unknown>)[]): Promise<void> => {
    signal?.removeEventListener("abort", abort);
    const settled = target[STATE].phase === "writable" && !target[STATE].closesOrClosed ? writing : undefined;
    if (settled) await settled.catch(() => {});
    const outcomes = await Promise.allSettled(actions.map((action) => attempt(action)));
    writer.releaseLock();
    reader.releaseLock();
    for (const outcome of outcomes) if (outcome.status === "rejected") throw outcome.reason;
    if (failure) throw failure.error;
  };
  for (;;) {
    const from = source[STATE];
    const to = target[STATE];
    if (aborted) {
      const { reason } = signal!;
      return shut({ error: reason }, [
        ...(preventAbort ? [] : [() => (to.phase === "writable" ? to.stop(reason) : Promise.resolve())]),
        ...(preventCancel ? [] : [() => (from.phase === "readable" ? from.cancel(reason) : Promise.resolve())]),
      ]);
    }
    if (from.phase === "errored") return shut({ error: from.error }, preventAbort ? [] : [() => to.stop(from.error)]);
    if (to.phase === "errored" || to.phase === "erroring") return shut({ error: to.error }, preventCancel ? [] : [() => from.cancel(to.error)]);
    if (to.phase === "closed" || to.closesOrClosed) {
      const error = invalidState("Destination WritableStream is closed");
      return shut({ error }, preventCancel ? [] : [() => from.cancel(error)]);
    }
    if (from.phase === "closed" && from.queue.items.length === 0) {
      return shut(undefined, preventClose ? [] : [() => (to.closesOrClosed || to.phase === "closed" ? Promise.resolve() : to.close())]);
    }
    try {
      if ((writer.desiredSize ?? 0) <= 0) await Promise.race([writer.ready, stop.promise, writer.closed, reader.closed.then(() => writer.ready)]);
      else {
        const result = await Promise.race([reader.read(), stop.promise, writer.closed.then(() => undefined)]);
        if (result && !result.done) writing = handled(writer.write(result.value));
      }
    } catch {
      // The states at the top of the loop contain the failure.
    }
  }
}
