/** `node:fs/promises`: the promise form of every operation, and FileHandle. */

import { importSync } from "pi:engine";
import { coded } from "pi:node/errors";
import { absentAsync } from "pi:node/refuse";
import { constants as all } from "pi:node/fs/constants";
import { copy } from "pi:node/fs/copy";
import { Dir } from "pi:node/fs/dir";
import { EventEmitter } from "node:events";
import * as requests from "pi:node/fs/requests";
import { run } from "pi:node/fs/requests";
import type { Request } from "pi:node/fs/requests";
import type { Stats } from "pi:node/fs/stats";

export const constants = all;

/** Returns the promise form. An invalid argument rejects too. */
function promised<A extends any[], T>(make: (...args: A) => Request<T>): (...args: A) => Promise<T> {
  return async (...args) => run(make(...args));
}

/** Returns an object without a prototype, like Node's results. */
function bare<T extends object>(members: T): T {
  return Object.assign(Object.create(null), members);
}

/** An open file. Closing twice is harmless, as in Node. */
export class FileHandle extends EventEmitter {
  #fd: number;

  constructor(fd: number) {
    super();
    this.#fd = fd;
  }

  /** Returns the descriptor, or -1 after closing. */
  get fd(): number {
    return this.#fd;
  }
  /** Returns the descriptor for an operation. Fails if the file is closed. */
  #use(syscall: string): number {
    if (this.#fd < 0) throw Object.assign(coded(Error, "EBADF", "file closed"), { syscall });
    return this.#fd;
  }
  appendFile(data: unknown, options?: any): Promise<undefined> {
    return appendFile(this.#fd, data, options);
  }
  async close(): Promise<void> {
    if (this.#fd < 0) return;
    const fd = this.#fd;
    this.#fd = -1;
    await run(requests.close(fd));
    this.emit("close");
  }
  async datasync(): Promise<void> {
    await run(requests.fdatasync(this.#use("fdatasync")));
  }
  async sync(): Promise<void> {
    await run(requests.fsync(this.#use("fsync")));
  }
  async read(first?: any, offset?: any, length?: number, position?: number | null): Promise<{ bytesRead: number; buffer: any }> {
    const view = ArrayBuffer.isView(first);
    const options = view ? (typeof offset === "object" && offset !== null ? offset : { offset, length, position }) : (first ?? {});
    const buffer = view ? first : (options.buffer ?? importSync("node:buffer").Buffer.alloc(16384));
    const start = options.offset ?? 0;
    const count = options.length ?? buffer.byteLength - start;
    return bare({ bytesRead: await run(requests.read(this.#use("read"), buffer, start, count, options.position)), buffer });
  }
  readFile(options?: any): Promise<any> {
    return readFile(this.#fd, options);
  }
  readLines(options?: object): any {
    return importSync("node:readline").createInterface({ input: this.createReadStream({ ...options, autoClose: false }), crlfDelay: Infinity });
  }
  async readv(buffers: ArrayBufferView[], position?: number): Promise<{ bytesRead: number; buffers: ArrayBufferView[] }> {
    let bytesRead = 0;
    for (const buffer of buffers) {
      const at = typeof position === "number" ? position + bytesRead : undefined;
      const count = await run(requests.read(this.#use("read"), buffer, 0, buffer.byteLength, at));
      bytesRead += count;
      if (count < buffer.byteLength) break;
    }
    return bare({ bytesRead, buffers });
  }
  async stat(options?: { bigint?: boolean }): Promise<Stats> {
    return run(requests.fstat(this.#use("fstat"), options));
  }
  async truncate(len?: number): Promise<undefined> {
    return run(requests.ftruncate(this.#use("ftruncate"), len));
  }
  async write(data: any, second?: any, third?: any, position?: number | null): Promise<{ bytesWritten: number; buffer: any }> {
    const { bytes, at } = writeArguments(data, second, third, position);
    return bare({ bytesWritten: await run(requests.write(this.#use("write"), bytes, at)), buffer: data });
  }
  writeFile(data: unknown, options?: any): Promise<undefined> {
    return writeFile(this.#fd, data, options);
  }
  async writev(buffers: ArrayBufferView[], position?: number): Promise<{ bytesWritten: number; buffers: ArrayBufferView[] }> {
    let bytesWritten = 0;
    for (const buffer of buffers) {
      const at = typeof position === "number" ? position + bytesWritten : undefined;
      bytesWritten += await run(requests.write(this.#use("write"), requests.dataOf(buffer, undefined), at));
    }
    return bare({ bytesWritten, buffers });
  }
  async chmod(mode: unknown): Promise<undefined> {
    return run(requests.fchmod(this.#use("fchmod"), mode));
  }
  async utimes(atime: unknown, mtime: unknown): Promise<undefined> {
    return run(requests.futimes(this.#use("futimes"), atime, mtime));
  }
  async chown(uid: unknown, gid: unknown): Promise<undefined> {
    return run(requests.fchown(this.#use("fchown"), uid, gid));
  }
  createReadStream(options?: object): any {
    return importSync("pi:node/fs/streams").streamOf("read", this, options);
  }
  createWriteStream(options?: object): any {
    return importSync("pi:node/fs/streams").streamOf("write", this, options);
  }
  readableWebStream(): any {
    const { Readable } = importSync("node:stream");
    return Readable.toWeb(this.createReadStream({ autoClose: false }));
  }
  [Symbol.asyncDispose ?? Symbol.for("asyncDispose")](): Promise<void> {
    return this.close();
  }
}

/** Reads the two forms of write: `(bytes, offset, length, position)` and `(text, position, encoding)`. */
export function writeArguments(data: any, second?: any, third?: any, position?: number | null): { bytes: Uint8Array; at: number | null | undefined } {
  if (typeof data === "string") return { bytes: requests.dataOf(data, third ?? "utf8"), at: second };
  const whole = requests.dataOf(data, undefined);
  const options = typeof second === "object" && second !== null ? second : { offset: second, length: third, position };
  const offset = options.offset ?? 0;
  return { bytes: whole.subarray(offset, offset + (options.length ?? whole.length - offset)), at: options.position };
}

export const access = promised(requests.access);
export const appendFile = promised((file: any, data: unknown, options?: any) => requests.appendFile(file, data, options));
export const chmod = promised(requests.chmod);
export const copyFile = promised(requests.copyFile);
export const cp = async (from: unknown, to: unknown, options?: any): Promise<undefined> => copy(from, to, options);
export const link = promised(requests.link);
export const lstat = promised((path: unknown, options?: { bigint?: boolean }) => requests.stat("lstat", path, options));
export const mkdir = promised(requests.mkdir);
export const mkdtemp = promised(requests.mkdtemp);
export const readFile = promised(requests.readFile);
export const readdir = promised(requests.readdirLater);
export const readlink = promised(requests.readlink);
export const realpath = promised(requests.realpath);
export const rename = promised(requests.rename);
export const rm = promised(requests.rm);
export const rmdir = promised(requests.rmdir);
export const stat = promised((path: unknown, options?: { bigint?: boolean }) => requests.stat("stat", path, options));
export const symlink = promised((target: unknown, path: unknown, _type?: unknown) => requests.symlink(target, path));
export const truncate = promised(requests.truncate);
export const unlink = promised(requests.unlink);
export const utimes = promised(requests.utimes);

/** Concatenates the pieces of a stream or another iterable; returns other values unchanged. */
async function gathered(data: any, options?: any): Promise<unknown> {
  const isIterable = typeof data === "object" && data !== null && !ArrayBuffer.isView(data) && (data[Symbol.asyncIterator] ?? data[Symbol.iterator]) !== undefined;
  if (!isIterable) return data;
  const pieces: Uint8Array[] = [];
  for await (const piece of data) pieces.push(requests.dataOf(piece, requests.encodingOf(options, "utf8")));
  return importSync("node:buffer").Buffer.concat(pieces);
}
export const writeFile = async (file: any, data: unknown, options?: any): Promise<undefined> => run(requests.writeFile(file, await gathered(data, options), options));

export async function open(path: unknown, flags?: unknown, mode?: unknown): Promise<FileHandle> {
  return new FileHandle(await run(requests.open(path, flags, mode)));
}

export async function opendir(path: unknown, options?: { recursive?: boolean }): Promise<Dir> {
  const folder = requests.pathOf(path);
  return new Dir(folder, await run({ ...requests.readdir(folder, { ...options, withFileTypes: true }), shownAs: "opendir" }));
}

export const statfs = promised(requests.statfs);
export const chown = promised((path: unknown, uid: unknown, gid: unknown) => requests.chown("chown", path, uid, gid));
export const lchown = promised((path: unknown, uid: unknown, gid: unknown) => requests.chown("lchown", path, uid, gid));
export const lchmod = absentAsync("fs.lchmod", "use fs.chmod on the file itself");
export const lutimes = promised(requests.lutimes);
export function glob(pattern: string | string[], options?: object): AsyncGenerator<any> {
  return importSync("pi:node/fs/search").glob(pattern, options);
}
export function watch(path: unknown, options?: any): AsyncGenerator<any> {
  return importSync("pi:node/fs/watch").watchPromise(path, options);
}

export default {
  glob, access, appendFile, chmod, chown, constants, copyFile, cp, lchmod, lchown, link, lstat, lutimes, mkdir, mkdtemp, open, opendir,
  readFile, readdir, readlink, realpath, rename, rm, rmdir, stat, statfs, symlink, truncate, unlink, utimes, watch, writeFile,
};
