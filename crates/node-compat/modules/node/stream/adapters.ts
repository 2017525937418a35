/** `pi:node/stream/adapters`: conversion between Node streams and web streams. */

import { invalidArgType } from "pi:node/errors";
import { Buffer } from "node:buffer";
import { Duplex } from "pi:node/stream/duplex";
import { finished } from "pi:node/stream/finished";
import { Readable } from "pi:node/stream/readable";
import { abortError, destroyer, isDestroyed, isReadable, isWritable } from "pi:node/stream/state";
import { Writable } from "pi:node/stream/writable";
import { ByteLengthQueuingStrategy, CountQueuingStrategy, ReadableStream, WritableStream } from "pi:web/streams";
import { queueTick } from "pi:web/ticks";

type Done = (error?: any) => void;

export function readableFromWeb(stream: any, options: any = {}): any {
  if (!(stream instanceof ReadableStream)) throw invalidArgType("readableStream", "an instance of ReadableStream", stream);
  const reader = stream.getReader();
  let closed = false;
  const readable = new Readable({
    objectMode: false,
    ...options,
    read() {
      reader.read().then(
        ({ done, value }: any) => readable.push(done ? null : value),
        (error: any) => destroyer(readable, error),
      );
    },
    destroy(error: any, done: Done) {
      const finish = () => queueTick(() => done(error));
      if (closed) done(error);
      else reader.cancel(error).then(finish, finish);
    },
  });
  reader.closed.then(
    () => (closed = true),
    (error: any) => {
      closed = true;
      destroyer(readable, error);
    },
  );
  return readable;
}

export function readableToWeb(stream: any, options: any = {}): any {
  if (!stream || typeof stream.on !== "function") throw invalidArgType("streamReadable", "an instance of stream.Readable", stream);
  if (isDestroyed(stream) || !isReadable(stream)) {
    const empty = new ReadableStream();
    void empty.cancel();
    return empty;
  }
  const { readableObjectMode: objects, readableHighWaterMark: mark } = stream;
  const strategy = options.strategy ?? (objects ? new CountQueuingStrategy({ highWaterMark: mark }) : new ByteLengthQueuingStrategy({ highWaterMark: mark }));
  let controller: any;
  let cancelled = false;
  stream.pause();
  const release = finished(stream, (error) => {
    const reason = error?.code === "ERR_STREAM_PREMATURE_CLOSE" ? abortError(error) : error;
    release();
    stream.on("error", () => {});
    if (reason) controller.error(reason);
    else if (!cancelled) controller.close();
  });
  stream.on("data", (chunk: any) => {
    controller.enqueue(Buffer.isBuffer(chunk) && !objects ? new Uint8Array(chunk as any) : chunk);
    if (controller.desiredSize <= 0) stream.pause();
  });
  return new ReadableStream(
    {
      start(given: any) {
        controller = given;
      },
      pull() {
        stream.resume();
      },
      cancel(reason: any) {
        cancelled = true;
        destroyer(stream, reason);
      },
    },
    strategy,
  );
}

export function writableFromWeb(stream: any, options: any = {}): any {
  if (!(stream instanceof WritableStream)) throw invalidArgType("writableStream", "an instance of WritableStream", stream);
  const writer = stream.getWriter();
  let closed = false;
  const writable = new Writable({
    ...options,
    write(chunk: any, encoding: string, done: Done) {
      const data = typeof chunk === "string" && options.decodeStrings !== false && !options.objectMode ? Buffer.from(chunk, encoding) : chunk;
      writer.ready.then(() => writer.write(data)).then(() => queueTick(() => done()), (error: any) => queueTick(() => done(error)));
    },
    destroy(error: any, done: Done) {
      const finish = () => queueTick(() => done(error));
      if (closed) return done(error);
      (error ? writer.abort(error) : writer.close()).then(finish, finish);
    },
    final(done: Done) {
      if (closed) return done();
      writer.close().then(() => queueTick(() => done()), (error: any) => queueTick(() => done(error)));
    },
  });
  writer.closed.then(
    () => {
      closed = true;
    },
    (error: any) => {
      closed = true;
      destroyer(writable, error);
    },
  );
  return writable;
}

export function writableToWeb(stream: any): any {
  if (!stream || typeof stream.write !== "function") throw invalidArgType("streamWritable", "an instance of stream.Writable", stream);
  if (isDestroyed(stream) || !isWritable(stream)) {
    const closed = new WritableStream();
    void closed.close();
    return closed;
  }
  const { writableHighWaterMark: mark, writableObjectMode: objects } = stream;
  // Chunks may be strings, which have no byte length.
  const strategy = objects ? new CountQueuingStrategy({ highWaterMark: mark }) : { highWaterMark: mark };
  let controller: any;
  let waiting: { resolve(): void; reject(error: any): void } | undefined;
  let closing: { resolve(): void; reject(error: any): void } | undefined;
  const release = finished(stream, (error) => {
    release();
    stream.on("error", () => {});
    const reason = error?.code === "ERR_STREAM_PREMATURE_CLOSE" ? abortError(error) : error;
    if (reason) {
      waiting?.reject(reason);
      closing?.reject(reason);
      controller.error(reason);
    } else if (closing) closing.resolve();
    else controller.error(abortError());
    waiting = closing = undefined;
  });
  stream.on("drain", () => {
    waiting?.resolve();
    waiting = undefined;
  });
  return new WritableStream(
    {
      start(given: any) {
        controller = given;
      },
      write(chunk: any) {
        if (stream.writableNeedDrain || !stream.write(chunk)) {
          return new Promise<void>((resolve, reject) => {
            waiting = { resolve, reject };
          });
        }
        return undefined;
      },
      abort(reason: any) {
        destroyer(stream, reason);
      },
      close() {
        return new Promise<void>((resolve, reject) => {
          closing = { resolve, reject };
          stream.end();
        });
      },
    },
    strategy,
  );
}

export function duplexFromWeb(pair: any, options: any = {}): any {
  const { encoding, ...others } = options;
  const duplex = (Duplex as any).from({ readable: readableFromWeb(pair.readable, others), writable: writableFromWeb(pair.writable, others) });
  return encoding ? duplex.setEncoding(encoding) : duplex;
}

export function duplexToWeb(stream: any): { readable: any; writable: any } {
  return { readable: readableToWeb(stream), writable: writableToWeb(stream) };
}
