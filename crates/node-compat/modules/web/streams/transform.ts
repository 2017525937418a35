/** `pi:web/streams/transform`: TransformStream, which transforms chunks written to one side and returns them at the other. */

import { STATE, INSPECT, attempt, deferred, handled, illegalConstructor } from "pi:web/streams/queue";
import type { Deferred, Strategy } from "pi:web/streams/queue";
import { ReadableStream } from "pi:web/streams/readable";
import { WritableStream } from "pi:web/streams/writable";

const BUILD = Symbol("build");

export interface Transformer {
  start?(controller: TransformStreamDefaultController): unknown;
  transform?(chunk: any, controller: TransformStreamDefaultController): unknown;
  flush?(controller: TransformStreamDefaultController): unknown;
  cancel?(reason: any): unknown;
  readableType?: undefined;
  writableType?: undefined;
}

export class TransformStream {
  #readable: ReadableStream;
  #writable: WritableStream;

  constructor(transformer: Transformer = {}, writableStrategy?: Strategy, readableStrategy?: Strategy) {
    const body = transformer ?? {};
    let room: Deferred = deferred();
    let backpressure = true;
    let inner: any;
    let ended: Promise<void> | undefined;
    const setBackpressure = (value: boolean) => {
      if (value === backpressure) return;
      backpressure = value;
      if (value) room = deferred();
      else room.resolve();
    };
    const begun = deferred<unknown>();
    const fail = (error: any) => {
      inner.error(error);
      this.#writable[STATE].errorIfNeeded(error);
      setBackpressure(false);
    };
    this.#readable = new ReadableStream(
      {
        start(controller) {
          inner = controller;
          return begun.promise;
        },
        pull() {
          setBackpressure(false);
        },
        cancel: (reason) =>
          (ended ??= attempt(() => body.cancel?.(reason)).then(
            () => {
              this.#writable[STATE].errorIfNeeded(reason);
              setBackpressure(false);
            },
            (error) => {
              fail(error);
              throw error;
            },
          )),
      },
      { highWaterMark: readableStrategy?.highWaterMark ?? 0, ...(readableStrategy?.size && { size: readableStrategy.size }) },
    );
    const source = this.#readable[STATE];
    const controller = new TransformStreamDefaultController(BUILD, {
      desired: () => source.desired,
      enqueue: (chunk) => {
        inner.enqueue(chunk);
        if ((source.desired ?? 0) <= 0 && source.requests.length === 0) setBackpressure(true);
      },
      error: fail,
      terminate: () => {
        if (source.canTake) inner.close();
        this.#writable[STATE].errorIfNeeded(Object.assign(new TypeError("Invalid state: TransformStream terminated"), { code: "ERR_INVALID_STATE" }));
        setBackpressure(false);
      },
    });
    const transform = (chunk: any): Promise<unknown> =>
      attempt(() => {
        if (typeof body.transform === "function") return body.transform(chunk, controller);
        controller.enqueue(chunk);
        return undefined;
      }).catch((error) => {
        fail(error);
        throw error;
      });
    this.#writable = new WritableStream(
      {
        start: () => begun.promise,
        write: async (chunk) => {
          while (backpressure) {
            await room.promise;
            const { phase, error } = this.#writable[STATE];
            if (phase === "erroring") throw error;
          }
          await transform(chunk);
        },
        abort: (reason) =>
          (ended ??= attempt(() => body.cancel?.(reason)).then(
            () => {
              inner.error(reason);
            },
            (error) => {
              inner.error(error);
              throw error;
            },
          )),
        close: () =>
          (ended ??= attempt(() => body.flush?.(controller)).then(
            () => {
              if (source.phase === "errored") throw source.error;
              if (source.canTake) inner.close();
            },
            (error) => {
              fail(error);
              throw error;
            },
          )),
      },
      writableStrategy,
    );
    const started = attempt(() => body.start?.(controller));
    handled(started);
    begun.resolve(started);
  }

  get readable(): ReadableStream {
    return this.#readable;
  }
  get writable(): WritableStream {
    return this.#writable;
  }
  get [Symbol.toStringTag](): string {
    return "TransformStream";
  }
  [INSPECT](_depth: number, options: object, inspect: (value: unknown, options: object) => string): string {
    return `TransformStream ${inspect({ readable: this.readable, writable: this.writable }, options)}`;
  }
}

interface Parts {
  desired(): number | null;
  enqueue(chunk: any): void;
  error(error: any): void;
  terminate(): void;
}

export class TransformStreamDefaultController {
  #parts: Parts;

  constructor(key: unknown, parts: Parts) {
    if (key !== BUILD) throw illegalConstructor();
    this.#parts = parts;
  }
  get desiredSize(): number | null {
    return this.#parts.desired();
  }
  enqueue(chunk?: any): void {
    this.#parts.enqueue(chunk);
  }
  error(reason?: any): void {
    this.#parts.error(reason);
  }
  terminate(): void {
    this.#parts.terminate();
  }
  get [Symbol.toStringTag](): string {
    return "TransformStreamDefaultController";
  }
}
