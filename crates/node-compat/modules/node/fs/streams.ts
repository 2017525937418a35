/**
 * `pi:node/fs/streams`: files as streams, which open the file, read or write by handle, and close it.
 *
 * Both accept a path, a descriptor or a FileHandle. `open` and `ready` are emitted when the file is open; with
 * `autoClose` (the default) it is closed when the stream ends.
 */

import { coded, invalidArgType, outOfRange } from "pi:node/errors";
import * as requests from "pi:node/fs/requests";
import { run } from "pi:node/fs/requests";
import { Buffer } from "node:buffer";
import { Readable, Writable, finished } from "node:stream";
import { define, inherit } from "pi:node/stream/legacy";
import { whenSettled } from "pi:web/ticks";

type Done = (error?: unknown) => void;

const READ_MARK = 64 * 1024;

function settingsOf(options: any): any {
  if (options === undefined || options === null) return {};
  if (typeof options === "string") return { encoding: options };
  if (typeof options !== "object") throw invalidArgType("options", "of type string or an instance of Object", options);
  return { ...options };
}

/** Takes the file from the options. A descriptor in them is not opened again. */
function adopt(stream: any, path: unknown, settings: any): void {
  const { fd } = settings;
  if (fd === undefined || fd === null) {
    stream.path = requests.pathOf(path);
    stream.fd = null;
    return;
  }
  stream.path = typeof path === "string" ? path : undefined;
  if (typeof fd === "number") stream.fd = requests.fdOf(fd);
  else if (typeof fd === "object" && typeof fd.fd === "number" && typeof fd.close === "function") {
    stream._handle = fd;
    stream.fd = fd.fd;
    fd.on?.("close", () => stream.close());
  } else throw invalidArgType("fd", "of type number or an instance of FileHandle", fd);
}

function place(name: string, value: unknown): number | undefined {
  if (value === undefined) return undefined;
  if (typeof value !== "number") throw invalidArgType(name, "of type number", value);
  if (!Number.isInteger(value) && value !== Infinity) throw outOfRange(name, "an integer", value);
  if (value < 0) throw outOfRange(name, ">= 0 && <= 9007199254740991", value);
  return value;
}

function construct(this: any, done: Done): void {
  if (typeof this.fd === "number") return done();
  whenSettled(
    run(requests.open(this.path, this.flags, this.mode)),
    (fd) => {
      this.fd = fd;
      done();
      this.emit("open", fd);
      this.emit("ready");
    },
    (error) => done(error),
  );
}

function close(stream: any, error: unknown, done: Done): void {
  const { fd, _handle: handle } = stream;
  stream.fd = null;
  const closing: Promise<unknown> = handle ? handle.close() : run(requests.close(fd));
  whenSettled(
    closing,
    () => done(error),
    (late) => done(error ?? late),
  );
}

/** Waits for the current operation: its descriptor must not be closed, and reused by another file, in the meantime. */
function destroyFile(this: any, error: unknown, done: Done): void {
  if (typeof this.fd !== "number" || !this._autoClose) return done(error);
  if (this._busy) this.once(BUSY_ENDED, () => close(this, error, done));
  else close(this, error, done);
}

const BUSY_ENDED = Symbol("the operation under way has ended");

function idle(stream: any): void {
  stream._busy = false;
  stream.emit(BUSY_ENDED);
}

export const ReadStream: any = function ReadStream(this: any, path: unknown, options?: any) {
  if (!new.target && !(this instanceof ReadStream)) return new (ReadStream as any)(path, options);
  const settings = settingsOf(options);
  settings.highWaterMark ??= READ_MARK;
  hidden(this);
  adopt(this, path, settings);
  this.flags = settings.flags ?? "r";
  this.mode = settings.mode ?? 0o666;
  this.start = place("start", settings.start);
  this.end = place("end", settings.end) ?? Infinity;
  if (this.start !== undefined && this.start > this.end) throw outOfRange("start", `<= "end" (here: ${this.end})`, this.start);
  this.pos = this.start;
  this.bytesRead = 0;
  this._autoClose = settings.autoClose ?? true;
  Readable.call(this, { ...settings, autoDestroy: this._autoClose, emitClose: settings.emitClose ?? true, fd: undefined });
};
inherit(ReadStream, Readable);

function hidden(stream: any): void {
  for (const [name, value] of [["_busy", false], ["_autoClose", true], ["_handle", undefined]] as const) {
    Object.defineProperty(stream, name, { value, writable: true, enumerable: false, configurable: true });
  }
}

const shared = {
  _construct: construct,
  _destroy: destroyFile,
  get autoClose(): boolean {
    return (this as any)._autoClose;
  },
  get pending(): boolean {
    return (this as any).fd === null;
  },
};

define(ReadStream.prototype, shared);
define(ReadStream.prototype, {
  _read(this: any, wanted: number): void {
    const left = this.pos === undefined ? this.end - this.bytesRead + 1 : this.end - this.pos + 1;
    const count = Math.min(left, wanted);
    if (count <= 0) return void this.push(null);
    const buffer = Buffer.alloc(count);
    this._busy = true;
    whenSettled(
      run(requests.read(this.fd, buffer, 0, count, this.pos)),
      (got) => {
        idle(this);
        if (this.destroyed) return;
        if (this.pos !== undefined) this.pos += got;
        this.bytesRead += got;
        this.push(got > 0 ? buffer.subarray(0, got) : null);
      },
      (error) => {
        idle(this);
        this.destroy(error);
      },
    );
  },
  close(this: any, done?: Done): void {
    if (done) finished(this, done);
    this.destroy();
  },
});

export const WriteStream: any = function WriteStream(this: any, path: unknown, options?: any) {
  if (!new.target && !(this instanceof WriteStream)) return new (WriteStream as any)(path, options);
  const settings = settingsOf(options);
  const { encoding } = settings;
  hidden(this);
  adopt(this, path, settings);
  this.flags = settings.flags ?? "w";
  this.mode = settings.mode ?? 0o666;
  this.start = place("start", settings.start);
  this.pos = this.start;
  this.bytesWritten = 0;
  this.flush = settings.flush ?? false;
  this._autoClose = settings.autoClose ?? true;
  Writable.call(this, { ...settings, decodeStrings: true, objectMode: false, autoDestroy: this._autoClose, emitClose: settings.emitClose ?? true, fd: undefined });
  if (encoding) this.setDefaultEncoding(encoding);
};
inherit(WriteStream, Writable);

/** Writes all bytes in several writes if one accepts fewer. */
async function writeAll(stream: any, bytes: Uint8Array): Promise<void> {
  let rest = bytes;
  while (rest.length > 0) {
    const count = await run(requests.write(stream.fd, rest, stream.pos));
    if (stream.pos !== undefined) stream.pos += count;
    stream.bytesWritten += count;
    rest = rest.subarray(count);
  }
}

function writing(stream: any, bytes: Uint8Array, done: Done): void {
  stream._busy = true;
  whenSettled(
    writeAll(stream, bytes),
    () => {
      idle(stream);
      done();
    },
    (error) => {
      idle(stream);
      done(error);
    },
  );
}

define(WriteStream.prototype, shared);
define(WriteStream.prototype, {
  _write(this: any, chunk: Uint8Array, _encoding: string, done: Done): void {
    writing(this, chunk, done);
  },
  _writev(this: any, chunks: { chunk: Uint8Array }[], done: Done): void {
    writing(this, Buffer.concat(chunks.map(({ chunk }) => chunk)), done);
  },
  _final(this: any, done: Done): void {
    if (!this.flush || typeof this.fd !== "number") return done();
    whenSettled(run(requests.fsync(this.fd)), () => done(), done);
  },
  destroySoon(this: any): void {
    this.end();
  },
  close(this: any, done?: Done): void {
    if (done) {
      if (this.closed) return done();
      this.on("close", () => done());
    }
    // Without autoClose the stream does not end its file by itself.
    if (!this._autoClose) this.on("finish", () => this.destroy());
    this.end();
  },
});

export function createReadStream(path: unknown, options?: any): any {
  return new (ReadStream as any)(path, options);
}
export function createWriteStream(path: unknown, options?: any): any {
  return new (WriteStream as any)(path, options);
}

/** Returns a stream of a FileHandle, which closes the handle when it ends. */
export function streamOf(kind: "read" | "write", handle: any, options?: any): any {
  if (handle.fd < 0) throw coded(Error, "EBADF", "EBADF: bad file descriptor");
  const settings = { ...options, fd: handle };
  return kind === "read" ? createReadStream(undefined, settings) : createWriteStream(undefined, settings);
}
