/**
 * `pi:web/streams/writable`: WritableStream, its controller and its writer.
 *
 * One write is in flight at a time; others wait in the controller's queue. An error first makes the stream *erroring*, until
 * the pending operation ends, and then *errored*.
 */

import { AbortController } from "pi:web/abort";
import type { AbortSignal } from "pi:web/abort";
import { INSPECT, STATE, SizedQueue, attempt, deferred, handled, illegalConstructor, invalidState, markOf, sizeOf } from "pi:web/streams/queue";
import type { Deferred, Strategy } from "pi:web/streams/queue";

const CLOSE = Symbol("close");
const BUILD = Symbol("build");

export interface Sink {
  start?(controller: WritableStreamDefaultController): unknown;
  write?(chunk: any, controller: WritableStreamDefaultController): unknown;
  close?(): unknown;
  abort?(reason: any): unknown;
  type?: undefined;
}

class State {
  phase: "writable" | "erroring" | "errored" | "closed" = "writable";
  error: any = undefined;
  writer: WritableStreamDefaultWriter | undefined;
  waiting: Deferred[] = [];
  writing: Deferred | undefined;
  closeRequest: Deferred | undefined;
  closing: Deferred | undefined;
  abortRequest: { done: Deferred; reason: any; wasErroring: boolean } | undefined;
  backpressure = false;
  started = false;
  queue = new SizedQueue<any>();
  sink: Sink;
  mark: number;
  size: (chunk: any) => number;
  controller!: WritableStreamDefaultController;
  abort = new AbortController();
  readonly over: Deferred = deferred();

  constructor(sink: Sink, strategy: Strategy | undefined) {
    this.sink = sink;
    this.size = sizeOf(strategy);
    this.mark = markOf(strategy, 1);
    handled(this.over.promise);
  }

  get desired(): number {
    return this.mark - this.queue.total;
  }
  get closesOrClosed(): boolean {
    return Boolean(this.closeRequest || this.closing);
  }

  write(chunk: any): Promise<void> {
    const request = deferred();
    this.waiting.push(request);
    let size = 1;
    try {
      size = this.size(chunk);
      this.queue.add(chunk, size);
    } catch (error) {
      this.errorIfNeeded(error);
      return request.promise;
    }
    if (!this.closesOrClosed && this.phase === "writable") this.updateBackpressure();
    this.advance();
    return request.promise;
  }

  close(): Promise<void> {
    if (this.phase === "closed" || this.phase === "errored") return Promise.reject(invalidState("WritableStream is closed"));
    if (this.closesOrClosed) return Promise.reject(invalidState("Failure to close WritableStream"));
    const request = (this.closeRequest = deferred());
    if (this.writer && this.backpressure && this.phase === "writable") this.writer[STATE].ready.resolve();
    this.queue.add(CLOSE, 0);
    this.advance();
    return request.promise;
  }

  stop(reason: any): Promise<void> {
    if (this.phase === "closed" || this.phase === "errored") return Promise.resolve();
    this.abort.abort(reason);
    if ((this.phase as string) === "closed" || (this.phase as string) === "errored") return Promise.resolve();
    if (this.abortRequest) return this.abortRequest.done.promise;
    const wasErroring = this.phase === "erroring";
    const done = deferred();
    this.abortRequest = { done, reason: wasErroring ? undefined : reason, wasErroring };
    if (!wasErroring) this.startErroring(reason);
    return done.promise;
  }

  updateBackpressure(): void {
    const value = this.desired <= 0;
    if (this.writer && value !== this.backpressure) {
      if (value) this.writer[STATE].ready = deferred();
      else this.writer[STATE].ready.resolve();
    }
    this.backpressure = value;
  }

  errorIfNeeded(error: any): void {
    if (this.phase === "writable") this.startErroring(error);
  }

  startErroring(reason: any): void {
    this.phase = "erroring";
    this.error = reason;
    if (this.writer) rejectReady(this.writer, reason);
    if (!this.writing && !this.closing && this.started) this.finishErroring();
  }

  finishErroring(): void {
    this.phase = "errored";
    this.queue.clear();
    const { error } = this;
    for (const request of this.waiting.splice(0)) request.reject(error);
    const request = this.abortRequest;
    if (!request) return this.rejectClosed();
    this.abortRequest = undefined;
    if (request.wasErroring) {
      request.done.reject(error);
      return this.rejectClosed();
    }
    attempt(() => this.sink.abort?.(request.reason)).then(
      () => {
        request.done.resolve();
        this.rejectClosed();
      },
      (failure) => {
        request.done.reject(failure);
        this.rejectClosed();
      },
    );
  }

  rejectClosed(): void {
    if (this.closeRequest) {
      this.closeRequest.reject(this.error);
      this.closeRequest = undefined;
    }
    this.over.reject(this.error);
    if (this.writer) handled(this.writer[STATE].closed.promise), this.writer[STATE].closed.reject(this.error);
  }

  failed(error: any): void {
    if (this.phase === "writable") return this.startErroring(error);
    this.finishErroring();
  }

  advance(): void {
    if (!this.started || this.writing) return;
    if (this.phase === "erroring") return this.finishErroring();
    const next = this.queue.items[0];
    if (!next) return;
    if (next.value === CLOSE) return this.runClose();
    this.runWrite(next.value);
  }

  runClose(): void {
    this.closing = this.closeRequest;
    this.closeRequest = undefined;
    this.queue.take();
    attempt(() => this.sink.close?.()).then(
      () => {
        this.closing!.resolve();
        this.closing = undefined;
        if (this.phase === "erroring") {
          this.error = undefined;
          this.abortRequest?.done.resolve();
          this.abortRequest = undefined;
        }
        this.phase = "closed";
        this.over.resolve();
        this.writer?.[STATE].closed.resolve();
      },
      (error) => {
        this.closing!.reject(error);
        this.closing = undefined;
        this.abortRequest?.done.reject(error);
        this.abortRequest = undefined;
        this.failed(error);
      },
    );
  }

  runWrite(chunk: any): void {
    this.writing = this.waiting.shift();
    attempt(() => this.sink.write?.(chunk, this.controller)).then(
      () => {
        this.writing!.resolve();
        this.writing = undefined;
        this.queue.take();
        if (!this.closesOrClosed && this.phase === "writable") this.updateBackpressure();
        this.advance();
      },
      (error) => {
        this.writing!.reject(error);
        this.writing = undefined;
        this.failed(error);
      },
    );
  }
}

export class WritableStream {
  [STATE]: State;

  constructor(sink: Sink = {}, strategy?: Strategy) {
    if (sink?.type !== undefined) throw Object.assign(new RangeError(`The argument 'type' is invalid. Received ${String(sink.type)}`), { code: "ERR_INVALID_ARG_VALUE" });
    const state = new State(sink ?? {}, strategy);
    Object.defineProperty(this, STATE, { enumerable: false });
    this[STATE] = state;
    const controller = new WritableStreamDefaultController(BUILD, state);
    state.controller = controller;
    state.backpressure = state.desired <= 0;
    const begun = state.sink.start?.(controller);
    Promise.resolve(begun).then(
      () => {
        state.started = true;
        state.advance();
      },
      (error) => {
        state.started = true;
        state.failed(error);
      },
    );
  }

  get locked(): boolean {
    return this[STATE].writer !== undefined;
  }
  abort(reason?: any): Promise<void> {
    if (this.locked) return Promise.reject(invalidState("WritableStream is locked"));
    return this[STATE].stop(reason);
  }
  close(): Promise<void> {
    if (this.locked) return Promise.reject(invalidState("WritableStream is locked"));
    return this[STATE].close();
  }
  getWriter(): WritableStreamDefaultWriter {
    return new WritableStreamDefaultWriter(this);
  }
  get [Symbol.toStringTag](): string {
    return "WritableStream";
  }
  get [Symbol.for("nodejs.webstream.isClosedPromise")](): Deferred {
    return this[STATE].over;
  }
  [Symbol.for("nodejs.webstream.controllerErrorFunction")](error: any): void {
    this[STATE].controller.error(error);
  }
  [INSPECT](_depth: number, options: object, inspect: (value: unknown, options: object) => string): string {
    return `WritableStream ${inspect({ locked: this.locked, state: this[STATE].phase }, options)}`;
  }
}

export class WritableStreamDefaultController {
  #state: State;

  constructor(key: unknown, state: State) {
    if (key !== BUILD) throw illegalConstructor();
    this.#state = state;
  }
  get signal(): AbortSignal {
    return this.#state.abort.signal;
  }
  error(error?: any): void {
    this.#state.errorIfNeeded(error);
  }
  get [Symbol.toStringTag](): string {
    return "WritableStreamDefaultController";
  }
}

function rejectReady(writer: WritableStreamDefaultWriter, reason: any): void {
  const state = writer[STATE];
  const old = state.ready;
  state.ready = deferred();
  old.reject(reason);
  handled(old.promise);
  state.ready.reject(reason);
  handled(state.ready.promise);
}

export class WritableStreamDefaultWriter {
  [STATE]: { stream: WritableStream | undefined; ready: Deferred; closed: Deferred };

  constructor(stream: WritableStream) {
    if (stream.locked) throw invalidState("WritableStream is locked");
    const inner = stream[STATE];
    Object.defineProperty(this, STATE, { enumerable: false });
    this[STATE] = { stream, ready: deferred(), closed: deferred() };
    const { ready, closed } = this[STATE];
    inner.writer = this;
    switch (inner.phase) {
      case "writable":
        if (inner.closesOrClosed || !inner.backpressure) ready.resolve();
        break;
      case "erroring":
        handled(ready.promise);
        ready.reject(inner.error);
        break;
      case "closed":
        ready.resolve();
        closed.resolve();
        break;
      default:
        handled(ready.promise);
        handled(closed.promise);
        ready.reject(inner.error);
        closed.reject(inner.error);
    }
  }

  get closed(): Promise<void> {
    return this[STATE].closed.promise;
  }
  get ready(): Promise<void> {
    return this[STATE].ready.promise;
  }
  get desiredSize(): number | null {
    const stream = this.#stream("desiredSize");
    const { phase, desired } = stream[STATE];
    return phase === "errored" || phase === "erroring" ? null : phase === "closed" ? 0 : desired;
  }
  abort(reason?: any): Promise<void> {
    return attempt(() => this.#stream("abort")[STATE].stop(reason));
  }
  close(): Promise<void> {
    return attempt(() => this.#stream("close")[STATE].close());
  }
  write(chunk?: any): Promise<void> {
    return attempt(() => {
      const state = this.#stream("write")[STATE];
      if (state.phase === "errored" || state.phase === "erroring") throw state.error;
      if (state.closesOrClosed || state.phase === "closed") throw invalidState("WritableStream is closed");
      return state.write(chunk);
    });
  }
  releaseLock(): void {
    const { stream, closed } = this[STATE];
    if (!stream) return;
    const error = invalidState("Writer has been released");
    rejectReady(this, error);
    if (stream[STATE].phase === "closed" || stream[STATE].phase === "errored") {
      this[STATE].closed = deferred();
      handled(this[STATE].closed.promise);
      this[STATE].closed.reject(error);
    } else {
      handled(closed.promise);
      closed.reject(error);
    }
    stream[STATE].writer = undefined;
    this[STATE].stream = undefined;
  }
  #stream(_use: string): WritableStream {
    const { stream } = this[STATE];
    if (!stream) throw invalidState("Writer is not bound to a WritableStream");
    return stream;
  }
  get [Symbol.toStringTag](): string {
    return "WritableStreamDefaultWriter";
  }
}
