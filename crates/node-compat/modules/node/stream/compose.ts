/** `pi:node/stream/compose`: a duplex composed of several parts, and pairs of connected duplexes. */

import { coded, invalidArgType } from "pi:node/errors";
import { Duplex, PassThrough } from "pi:node/stream/duplex";
import { finished } from "pi:node/stream/finished";
import { define } from "pi:node/stream/legacy";
import { pipelineImpl } from "pi:node/stream/pipeline";
import { Readable } from "pi:node/stream/readable";
import {
  abortError, destroyer, isIterable, isNodeStream, isReadable, isReadableNode, isReadableStream, isTransformStream, isWritable, isWritableNode,
  isWritableStream,
} from "pi:node/stream/state";
import { Writable } from "pi:node/stream/writable";
import { importSync } from "pi:engine";
import { queueTick } from "pi:web/ticks";

type Done = (error?: any) => void;

const adapters = () => importSync("pi:node/stream/adapters");

/** Returns a duplex that joins a writable and a readable. */
export function joined({ readable, writable }: { readable?: any; writable?: any }, options: object = {}): any {
  const source = readable && typeof readable.read !== "function" ? Readable.wrap(readable) : readable;
  const target = writable;
  let canRead = Boolean(isReadable(source));
  let canWrite = Boolean(isWritable(target));
  let onDrain: Done | undefined;
  let onFinish: Done | undefined;
  let onReadable: Done | undefined;
  let onClose: Done | undefined;
  const over = (error?: any) => {
    const done = onClose;
    onClose = undefined;
    if (done) done(error);
    else if (error) duplex.destroy(error);
  };
  const duplex = new Duplex({
    ...options,
    readableObjectMode: Boolean(source?.readableObjectMode),
    writableObjectMode: Boolean(target?.writableObjectMode),
    readable: canRead,
    writable: canWrite,
    emitClose: true,
  });
  if (canWrite) {
    finished(target, { readable: false }, (error) => {
      canWrite = false;
      if (error) destroyer(source, error);
      over(error);
    });
    duplex._write = (chunk: any, encoding: string, done: Done) => {
      if (target.write(chunk, encoding)) done();
      else onDrain = done;
    };
    duplex._final = (done: Done) => {
      target.end();
      onFinish = done;
    };
    target.on("drain", () => {
      const done = onDrain;
      onDrain = undefined;
      done?.();
    });
    target.on("finish", () => {
      const done = onFinish;
      onFinish = undefined;
      done?.();
    });
  }
  if (canRead) {
    finished(source, { writable: false }, (error) => {
      canRead = false;
      if (error) destroyer(target, error);
      over(error);
    });
    source.on("readable", () => {
      const next = onReadable;
      onReadable = undefined;
      next?.();
    });
    source.on("end", () => duplex.push(null));
    duplex._read = () => {
      for (;;) {
        const chunk = source.read();
        if (chunk === null) {
          onReadable = duplex._read;
          return;
        }
        if (!duplex.push(chunk)) return;
      }
    };
  }
  duplex._destroy = (error: any, done: Done) => {
    const reason = error ?? (onClose ? abortError() : null);
    onReadable = onDrain = onFinish = undefined;
    destroyer(target, reason);
    destroyer(source, reason);
    done(error);
  };
  return duplex;
}

function fromFunction(body: (source: any, options: object) => any): any {
  const { AbortController } = importSync("pi:web/abort");
  const controller = new AbortController();
  const input = new PassThrough({ objectMode: true });
  const value = body(input[Symbol.asyncIterator](), { signal: controller.signal });
  if (isIterable(value)) return joined({ readable: Readable.from(value, { objectMode: true }), writable: input });
  if (typeof value?.then === "function") {
    const duplex: any = new Duplex({
      objectMode: true,
      readable: false,
      write: (chunk: any, encoding: string, done: Done) => (input.write(chunk, encoding) ? done() : void input.once("drain", done)),
      final: (done: Done) => {
        input.end();
        value.then(
          (given: any) => {
            if (given !== null && given !== undefined) throw coded(TypeError, "ERR_INVALID_RETURN_VALUE", 'Expected nully to be returned from the "body" function but got a value.');
            queueTick(() => done());
          },
        ).catch((error: any) => queueTick(() => done(error)));
      },
      destroy: (error: any, done: Done) => {
        controller.abort();
        done(error);
      },
    });
    value.catch?.((error: any) => duplex.destroy(error));
    return duplex;
  }
  throw coded(TypeError, "ERR_INVALID_RETURN_VALUE", `Expected Iterable, AsyncIterable or AsyncFunction to be returned from the "body" function but got ${typeof value}.`);
}

/** Creates a duplex from almost any value. */
Duplex.from = function from(body: any): any {
  if (body instanceof Duplex) return body;
  if (isNodeStream(body)) {
    if (isReadableNode(body) && isWritableNode(body)) return joined({ readable: body, writable: body });
    return isReadableNode(body) ? joined({ readable: body }) : joined({ writable: body });
  }
  if (isReadableStream(body)) return joined({ readable: Readable.fromWeb(body) });
  if (isWritableStream(body)) return joined({ writable: Writable.fromWeb(body) });
  if (typeof body === "function") return fromFunction(body);
  if (typeof body?.arrayBuffer === "function" && typeof body.stream === "function") return Duplex.from(body.arrayBuffer());
  if (isIterable(body)) return joined({ readable: Readable.from(body, { objectMode: true }) });
  if (isReadableStream(body?.readable) && isWritableStream(body?.writable)) return Duplex.fromWeb(body);
  if (typeof body?.writable === "object" || typeof body?.readable === "object") {
    const readable = body.readable ? (isReadableNode(body.readable) ? body.readable : Duplex.from(body.readable)) : undefined;
    const writable = body.writable ? (isWritableNode(body.writable) ? body.writable : Duplex.from(body.writable)) : undefined;
    return joined({ readable, writable });
  }
  if (typeof body?.then === "function") {
    return joined({
      readable: Readable.from((async function* () {
        const value = await body;
        if (value !== null && value !== undefined) yield value instanceof ArrayBuffer ? new Uint8Array(value) : value;
      })(), { objectMode: true }),
    });
  }
  throw invalidArgType("stream", "an instance of Blob, ReadableStream, WritableStream, Stream, Iterable, AsyncIterable, Function, or Promise", body);
};

/** Joins several streams into one duplex, which writes to the first and reads from the last. */
export function compose(...streams: any[]): any {
  if (streams.length === 0) throw coded(TypeError, "ERR_MISSING_ARGS", 'The "streams" argument must be specified');
  if (streams.length === 1) return Duplex.from(streams[0]);
  const line = streams.map((stream, index) => (isNodeStream(stream) || (typeof stream === "function" && index > 0 && index < streams.length - 1) ? stream : Duplex.from(stream)));
  const head = line[0];
  const tail = line.at(-1);
  for (const [index, stream] of line.entries()) {
    if (typeof stream === "function") continue;
    if (index < line.length - 1 && !isReadable(stream)) throw coded(TypeError, "ERR_INVALID_ARG_VALUE", `The argument 'streams[${index}]' must be readable.`);
    if (index > 0 && !isWritable(stream)) throw coded(TypeError, "ERR_INVALID_ARG_VALUE", `The argument 'streams[${index}]' must be writable.`);
  }
  const duplex = joined({ readable: isReadable(tail) ? tail : undefined, writable: isWritable(head) ? head : undefined });
  pipelineImpl(line, (error) => {
    if (error) duplex.destroy(error);
  }, {});
  return duplex;
}

/** Returns two duplexes: data written to one is read from the other. */
export function duplexPair(options?: object): [any, any] {
  const sides: any[] = [];
  const waiting: (Done | null)[] = [null, null];
  for (const mine of [0, 1]) {
    const other = 1 - mine;
    sides.push(new Duplex({
      ...options,
      read() {
        const done = waiting[mine]!;
        waiting[mine] = null;
        done?.();
      },
      write(chunk: any, _encoding: string, done: Done) {
        if (chunk.length === 0) queueTick(done);
        else {
          waiting[other] = done;
          sides[other].push(chunk);
        }
      },
      final(done: Done) {
        sides[other].on("end", done);
        sides[other].push(null);
      },
    }));
  }
  return [sides[0], sides[1]];
}

define(Readable.prototype, {
  compose(this: any, stream: any, options?: { signal?: any }): any {
    const composed = compose(this, stream);
    if (options?.signal) importSync("pi:node/stream/finished").addAbortSignal(options.signal, composed);
    return composed;
  },
});

// Web streams load on first use.
Readable.fromWeb = (stream: any, options?: object): any => adapters().readableFromWeb(stream, options);
Readable.toWeb = (stream: any, options?: object): any => adapters().readableToWeb(stream, options);
Writable.fromWeb = (stream: any, options?: object): any => adapters().writableFromWeb(stream, options);
Writable.toWeb = (stream: any): any => adapters().writableToWeb(stream);
Duplex.fromWeb = (pair: any, options?: object): any => adapters().duplexFromWeb(pair, options);
Duplex.toWeb = (stream: any): any => adapters().duplexToWeb(stream);
