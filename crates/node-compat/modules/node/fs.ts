/**
 * `node:fs`: the sync and callback forms of every operation, and `fs.promises`.
 *
 * `pi:node/fs/requests` defines the operations; this module wraps each in its two forms. The host's gate decides each access: a
 * refusal is EACCES, and for `existsSync` a missing file. Streams and watchers load on first use; extensions cannot change
 * owners.
 */

import { importSync } from "pi:engine";
import { checkFunction, invalidArgType } from "pi:node/errors";
import { absent } from "pi:node/refuse";
import { constants as all } from "pi:node/fs/constants";
import { copy, copySync } from "pi:node/fs/copy";
import { Dir as DirClass } from "pi:node/fs/dir";
import * as requests from "pi:node/fs/requests";
import { run, runSync, trySync } from "pi:node/fs/requests";
import type { Request } from "pi:node/fs/requests";
import { defineLazy } from "pi:web/lazy";
import { whenSettled } from "pi:web/ticks";
import promiseForms, { writeArguments } from "node:fs/promises";
import { Dirent as DirentClass, Stats as StatsClass } from "pi:node/fs/stats";

type Done = (error: any, ...values: any[]) => void;

export const constants = all;
export const { F_OK, R_OK, W_OK, X_OK } = all;
export const promises = promiseForms;
export const Dir = DirClass;
export const Dirent = DirentClass;
export const Stats = StatsClass;

const PROMISIFY = Symbol.for("nodejs.util.promisify.custom");

/** Returns the sync form. */
function blocking<A extends any[], T>(make: (...args: A) => Request<T>): (...args: A) => T {
  return (...args) => runSync(make(...args));
}

/** Returns the callback form. The last function is the callback; an invalid argument throws at once. */
function called<A extends any[], T>(make: (...args: A) => Request<T>): (...args: any[]) => void {
  return (...args) => {
    // The first argument is never the callback: without a second one there is none.
    const done = takeCallback(args.length > 1 ? args : []);
    settle(run(make(...(args as unknown as A))), done);
  };
}

/** Takes the callback, which is the last argument after the required ones. */
function takeCallback(args: unknown[]): Done {
  const done = args.pop();
  checkFunction("cb", done);
  return done as Done;
}

/** Calls the callback outside of the promise, so that its exceptions are reported as the extension's. */
function settle<T>(promise: Promise<T>, done: Done): void {
  whenSettled(promise, (value) => (value === undefined ? done(null) : done(null, value)), done);
}

const stat_ = (path: unknown, options?: { bigint?: boolean }) => requests.stat("stat", path, options);
const lstat_ = (path: unknown, options?: { bigint?: boolean }) => requests.stat("lstat", path, options);
const symlink_ = (target: unknown, path: unknown, _type?: unknown) => requests.symlink(target, path);
const exists_ = (path: unknown) => requests.exists(path);

const chown_ = (path: unknown, uid: unknown, gid: unknown) => requests.chown("chown", path, uid, gid);
const lchown_ = (path: unknown, uid: unknown, gid: unknown) => requests.chown("lchown", path, uid, gid);

export const accessSync = blocking(requests.access);
export const access = called(requests.access);
export const appendFileSync = blocking(requests.appendFile);
export const appendFile = called(requests.appendFile);
export const chownSync = blocking(chown_);
export const chown = called(chown_);
export const lchownSync = blocking(lchown_);
export const lchown = called(lchown_);
export const chmodSync = blocking(requests.chmod);
export const chmod = called(requests.chmod);
export const closeSync = blocking(requests.close);
export const copyFileSync = blocking(requests.copyFile);
export const copyFile = called(requests.copyFile);
export const cpSync = copySync;
export function cp(from: unknown, to: unknown, ...args: any[]): void {
  const done = takeCallback(args);
  whenSettled(copy(from, to, args[0]), () => done(null, undefined), done);
}
export const fdatasyncSync = blocking(requests.fdatasync);
export const fdatasync = called(requests.fdatasync);
export const fchownSync = blocking(requests.fchown);
export const fchown = called(requests.fchown);
export const fstatSync = blocking(requests.fstat);
export const fstat = called(requests.fstat);
export const fchmodSync = blocking(requests.fchmod);
export const fchmod = called(requests.fchmod);
export const futimesSync = blocking(requests.futimes);
export const futimes = called(requests.futimes);
export const lutimesSync = blocking(requests.lutimes);
export const lutimes = called(requests.lutimes);
export const fsyncSync = blocking(requests.fsync);
export const fsync = called(requests.fsync);
export const ftruncateSync = blocking(requests.ftruncate);
export const ftruncate = called(requests.ftruncate);
export const linkSync = blocking(requests.link);
export const link = called(requests.link);
export const lstat = called(lstat_);
export const mkdirSync = blocking(requests.mkdir);
export const mkdir = called(requests.mkdir);
export const mkdtempSync = blocking(requests.mkdtemp);
export const mkdtemp = called(requests.mkdtemp);
export const openSync = blocking(requests.open);
export const open = called(requests.open);
export const readFileSync = blocking(requests.readFile);
export const readFile = called(requests.readFile);
export const readdirSync = blocking(requests.readdir);
export const readdir = called(requests.readdir);
export const readlinkSync = blocking(requests.readlink);
export const readlink = called(requests.readlink);
export const realpathSync = Object.assign(blocking(requests.walked), { native: blocking(requests.realpath) });
export const realpath = Object.assign(called(requests.walked), { native: called(requests.realpath) });
export const renameSync = blocking(requests.rename);
export const rename = called(requests.rename);
export const rmSync = blocking(requests.rm);
export const rm = called(requests.rm);
export const rmdirSync = blocking(requests.rmdir);
export const rmdir = called(requests.rmdir);
export const stat = called(stat_);
export const symlinkSync = blocking(symlink_);
export const symlink = called(symlink_);
export const truncateSync = blocking(requests.truncate);
export const truncate = called(requests.truncate);
export const unlinkSync = blocking(requests.unlink);
export const unlink = called(requests.unlink);
export const utimesSync = blocking(requests.utimes);
export const utimes = called(requests.utimes);
export const writeFileSync = blocking(requests.writeFile);
export const writeFile = called(requests.writeFile);

/** Wraps `stat`: with `throwIfNoEntry: false` it returns undefined for a missing file. */
function statSyncWith(make: typeof stat_) {
  return (path: unknown, options?: { bigint?: boolean; throwIfNoEntry?: boolean }): any => {
    try {
      return runSync(make(path, options));
    } catch (error) {
      const missing = ["ENOENT", "ENOTDIR"].includes((error as { code?: string }).code ?? "");
      if (options?.throwIfNoEntry === false && missing) return undefined;
      throw error;
    }
  };
}
export const statSync = statSyncWith(stat_);
export const lstatSync = statSyncWith(lstat_);

/** Returns whether a file exists. Never throws: an inaccessible file counts as missing. */
export function existsSync(path: unknown): boolean {
  try {
    return trySync(exists_(path)) ?? false;
  } catch {
    return false;
  }
}

export function exists(path: unknown, done: (found: boolean) => void): void {
  checkFunction("cb", done);
  const found = (async () => run(exists_(path)))();
  whenSettled(found, done, () => done(false));
}
Object.defineProperty(exists, PROMISIFY, { value: (path: unknown) => run(exists_(path)).catch(() => false) });

export function close(fd: unknown, done?: Done): void {
  settle(run(requests.close(fd)), done ?? (() => undefined));
}

/** Reads `(fd, buffer, offset, length, position)` or `(fd, buffer, {offset, length, position})`. */
function readRequest(fd: unknown, buffer: any, second?: any, length?: number, position?: number | bigint | null): Request<number> {
  if (!ArrayBuffer.isView(buffer)) throw invalidArgType("buffer", "an instance of Buffer, TypedArray, or DataView", buffer);
  const options = typeof second === "object" && second !== null ? second : { offset: second, length, position };
  const offset = options.offset ?? 0;
  return requests.read(fd, buffer, offset, options.length ?? buffer.byteLength - offset, options.position);
}
export const readSync = blocking(readRequest);
export function read(fd: unknown, ...args: any[]): void {
  const done = takeCallback(args);
  let [buffer, ...rest] = args;
  if (!ArrayBuffer.isView(buffer)) {
    rest = [buffer ?? {}];
    buffer = buffer?.buffer ?? importSync("node:buffer").Buffer.alloc(16384);
  }
  whenSettled(run(readRequest(fd, buffer, ...(rest as [any]))), (count) => done(null, count, buffer), done);
}
Object.defineProperty(read, PROMISIFY, {
  value: (fd: unknown, buffer: any, ...rest: [any]) => run(readRequest(fd, buffer, ...rest)).then((bytesRead) => ({ bytesRead, buffer })),
});

function writeRequest(fd: unknown, data: any, second?: any, third?: any, position?: number | null): Request<number> {
  const { bytes, at } = writeArguments(data, second, third, position);
  return requests.write(fd, bytes, at);
}
export const writeSync = blocking(writeRequest);
export function write(fd: unknown, data: any, ...args: any[]): void {
  const done = takeCallback(args);
  whenSettled(run(writeRequest(fd, data, ...(args as [any]))), (count) => done(null, count, data), done);
}
Object.defineProperty(write, PROMISIFY, {
  value: (fd: unknown, buffer: any, ...rest: [any]) => run(writeRequest(fd, buffer, ...rest)).then((bytesWritten) => ({ bytesWritten, buffer })),
});

export function readvSync(fd: unknown, buffers: ArrayBufferView[], position?: number): number {
  let count = 0;
  for (const buffer of buffers) {
    const at = typeof position === "number" ? position + count : undefined;
    const got = runSync(requests.read(fd, buffer, 0, buffer.byteLength, at));
    count += got;
    if (got < buffer.byteLength) break;
  }
  return count;
}
export function writevSync(fd: unknown, buffers: ArrayBufferView[], position?: number): number {
  let count = 0;
  for (const buffer of buffers) {
    count += runSync(requests.write(fd, requests.dataOf(buffer, undefined), typeof position === "number" ? position + count : undefined));
  }
  return count;
}

/** Returns the callback form of an operation on several buffers. */
function many(each: (fd: unknown, buffer: ArrayBufferView, position: number | undefined) => Promise<number>, partial: boolean) {
  return (fd: unknown, buffers: ArrayBufferView[], ...args: any[]): void => {
    const done = takeCallback(args);
    const all = (async () => {
      let count = 0;
      for (const buffer of buffers) {
        const got = await each(fd, buffer, typeof args[0] === "number" ? args[0] + count : undefined);
        count += got;
        if (partial && got < buffer.byteLength) break;
      }
      return count;
    })();
    whenSettled(all, (count) => done(null, count, buffers), done);
  };
}
export const readv = many((fd, buffer, at) => run(requests.read(fd, buffer, 0, buffer.byteLength, at)), true);
export const writev = many((fd, buffer, at) => run(requests.write(fd, requests.dataOf(buffer, undefined), at)), false);

export function opendirSync(path: unknown, options?: { recursive?: boolean }): DirClass {
  const folder = requests.pathOf(path);
  return new DirClass(folder, runSync({ ...requests.readdir(folder, { ...options, withFileTypes: true }), shownAs: "opendir" }));
}
export function opendir(path: unknown, ...args: any[]): void {
  const done = takeCallback(args);
  const folder = requests.pathOf(path);
  settle(run({ ...requests.readdir(folder, { ...args[0], withFileTypes: true }), shownAs: "opendir" }).then((entries) => new DirClass(folder, entries)), done);
}


export const lchmod = absent("fs.lchmod", "use fs.chmod on the file itself");
export const lchmodSync = absent("fs.lchmodSync", "use fs.chmodSync on the file itself");
export const statfs = called(requests.statfs);
export const statfsSync = blocking(requests.statfs);

const streams = () => importSync("pi:node/fs/streams");
const watching = () => importSync("pi:node/fs/watch");

export function createReadStream(path: unknown, options?: any): any {
  return streams().createReadStream(path, options);
}
export function createWriteStream(path: unknown, options?: any): any {
  return streams().createWriteStream(path, options);
}
export function watch(path: unknown, ...rest: any[]): any {
  return watching().watch(path, ...rest);
}
export function watchFile(path: unknown, ...rest: any[]): any {
  return watching().watchFile(path, ...rest);
}
export function unwatchFile(path: unknown, listener?: any): void {
  watching().unwatchFile(path, listener);
}
export function globSync(pattern: string | string[], options?: object): any {
  return importSync("pi:node/fs/search").globSync(pattern, options);
}
export function glob(pattern: string | string[], ...rest: any[]): void {
  const done = takeCallback(rest);
  const all = async () => {
    const found: unknown[] = [];
    for await (const one of promiseForms.glob(pattern, rest[0])) found.push(one);
    return found;
  };
  // Calls back from a promise's result, as Node does here.
  all().then((found) => done(null, found), done);
}
export async function openAsBlob(path: unknown, options?: { type?: string }): Promise<any> {
  const bytes = await run(requests.readFile(path));
  return new (importSync("pi:web/blob").Blob)([bytes], options);
}

const fs = {
  F_OK, R_OK, W_OK, X_OK, Dir, Dirent, Stats, access, accessSync, appendFile, appendFileSync, chmod, chmodSync, chown, chownSync,
  close, closeSync, constants, copyFile, copyFileSync, cp, cpSync, createReadStream, createWriteStream, exists, existsSync,
  fchmod, fchmodSync, fchown, fchownSync, fdatasync, fdatasyncSync, fstat, fstatSync, fsync, fsyncSync, ftruncate, ftruncateSync,
  futimes, futimesSync, lchmod, lchmodSync, lchown, lchownSync, link, linkSync, lstat, lstatSync, lutimes, lutimesSync,
  mkdir, mkdirSync, mkdtemp, mkdtempSync, open, openSync, opendir, opendirSync, promises, read, readFile, readFileSync, readSync,
  readdir, readdirSync, readlink, readlinkSync, readvSync, realpath, realpathSync, rename, renameSync, rm, rmSync, rmdir, rmdirSync,
  stat, statSync, statfs, statfsSync, symlink, symlinkSync, truncate, truncateSync, unlink, unlinkSync, unwatchFile,
  utimes, utimesSync, glob, globSync, openAsBlob, readv, writev, watch, watchFile, write, writeFile, writeFileSync, writeSync, writevSync,
};

// Defines classes that load when they are read, such as `ReadStream` of the default export; named imports provide them too.
for (const [name, from] of [["ReadStream", "streams"], ["WriteStream", "streams"], ["FileReadStream", "streams"], ["FileWriteStream", "streams"], ["FSWatcher", "watch"]] as const) {
  defineLazy(fs, name, `pi:node/fs/${from}`, name.replace("File", ""));
}
/** Returns a constructor that loads the class on first use. */
function lazyClass(name: "ReadStream" | "WriteStream"): any {
  return new Proxy(function () {}, {
    apply: (_target, _self, args) => new (streams()[name])(...args),
    construct: (_target, args, target) => Reflect.construct(streams()[name], args, target === proxies[name] ? streams()[name] : target),
    get: (_target, member) => streams()[name][member],
    getPrototypeOf: () => Object.getPrototypeOf(streams()[name]),
  });
}
const proxies: Record<string, any> = { ReadStream: lazyClass("ReadStream"), WriteStream: lazyClass("WriteStream") };
export const { ReadStream, WriteStream } = proxies;
export { ReadStream as FileReadStream, WriteStream as FileWriteStream };

export default fs;
