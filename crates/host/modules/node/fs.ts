/**
 * `node:fs`: the sync and callback forms of every operation, and `fs.promises`.
 *
 * What an operation is stands in `pi:node/fs/requests`; here it gets its two forms. Files are reached
 * through the host's gate: what it refuses is EACCES, and for `existsSync` simply not there. Streams,
 * watching and owners are not available yet and say so when they are used.
 */

import { importSync } from "pi:engine";
import { checkFunction, invalidArgType, notSupported } from "pi:node/errors";
import { constants as all } from "pi:node/fs/constants";
import { Dir as DirClass } from "pi:node/fs/dir";
import * as requests from "pi:node/fs/requests";
import { run, runSync } from "pi:node/fs/requests";
import type { Request } from "pi:node/fs/requests";
import promiseForms, { writeArguments } from "node:fs/promises";
import { BigIntStats, Dirent as DirentClass, Stats as StatsClass } from "pi:node/fs/stats";

type Done = (error: any, ...values: any[]) => void;

export const constants = all;
export const { F_OK, R_OK, W_OK, X_OK } = all;
export const promises = promiseForms;
export const Dir = DirClass;
export const Dirent = DirentClass;
export const Stats = StatsClass;

const PROMISIFY = Symbol.for("nodejs.util.promisify.custom");

/** The sync form. */
function blocking<A extends any[], T>(make: (...args: A) => Request<T>): (...args: A) => T {
  return (...args) => runSync(make(...args));
}

/** The callback form: the last function is the callback; a bad argument throws at once. */
function called<A extends any[], T>(make: (...args: A) => Request<T>): (...args: any[]) => void {
  return (...args) => {
    const done = takeCallback(args);
    settle(run(make(...(args as unknown as A))), done);
  };
}

function takeCallback(args: unknown[]): Done {
  const done = args.pop();
  checkFunction("cb", done);
  return done;
}

/** The callback runs outside the promise's own error handling: what it throws is the extension's. */
function settle<T>(promise: Promise<T>, done: Done): void {
  promise.then(
    (value) => (value === undefined ? done(null) : done(null, value)),
    (error) => done(error),
  );
}

const stat_ = (path: unknown, options?: { bigint?: boolean }) => requests.stat("stat", path, options);
const lstat_ = (path: unknown, options?: { bigint?: boolean }) => requests.stat("lstat", path, options);
const symlink_ = (target: unknown, path: unknown, _type?: unknown) => requests.symlink(target, path);
const exists_ = (path: unknown) => requests.exists(path);

export const accessSync = blocking(requests.access);
export const access = called(requests.access);
export const appendFileSync = blocking(requests.appendFile);
export const appendFile = called(requests.appendFile);
export const chmodSync = blocking(requests.chmod);
export const chmod = called(requests.chmod);
export const closeSync = blocking(requests.close);
export const copyFileSync = blocking(requests.copyFile);
export const copyFile = called(requests.copyFile);
export const cpSync = blocking(requests.cp);
export const cp = called(requests.cp);
export const fdatasyncSync = blocking(requests.fsync);
export const fdatasync = called(requests.fsync);
export const fstatSync = blocking(requests.fstat);
export const fstat = called(requests.fstat);
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
export const realpathSync = Object.assign(blocking(requests.realpath), { native: blocking(requests.realpath) });
export const realpath = Object.assign(called(requests.realpath), { native: called(requests.realpath) });
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

/** With `throwIfNoEntry: false` a missing file is undefined. */
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

/** Never throws: what may not be seen is not there. */
export function existsSync(path: unknown): boolean {
  try {
    return runSync(exists_(path));
  } catch {
    return false;
  }
}

export function exists(path: unknown, done: (found: boolean) => void): void {
  checkFunction("cb", done);
  (async () => run(exists_(path)))().catch(() => false).then((found) => done(found));
}
Object.defineProperty(exists, PROMISIFY, { value: (path: unknown) => run(exists_(path)).catch(() => false) });

export function close(fd: unknown, done?: Done): void {
  settle(run(requests.close(fd)), done ?? (() => undefined));
}

/** `(fd, buffer, offset, length, position)` or `(fd, buffer, {offset, length, position})`. */
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
  run(readRequest(fd, buffer, ...(rest as [any]))).then((count) => done(null, count, buffer), done);
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
  run(writeRequest(fd, data, ...(args as [any]))).then((count) => done(null, count, data), done);
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

export function opendirSync(path: unknown, options?: { recursive?: boolean }): DirClass {
  const folder = requests.pathOf(path);
  return new DirClass(folder, runSync(requests.readdir(folder, { ...options, withFileTypes: true })));
}
export function opendir(path: unknown, ...args: any[]): void {
  const done = takeCallback(args);
  const folder = requests.pathOf(path);
  settle(run(requests.readdir(folder, { ...args[0], withFileTypes: true })).then((entries) => new DirClass(folder, entries)), done);
}

/** A member that exists so that it can say what to do instead. */
function absent(member: string, advice: string): (...args: unknown[]) => never {
  return () => {
    throw notSupported(`fs.${member}`, advice);
  };
}

const BY_PATH = "use the form that takes a path";
const OWNERS = "owners of files are not for extensions to change";
const STREAMS = "file streams come with node:stream; use readFile, writeFile or a FileHandle";
const WATCHING = "read the file again when an event tells you to, or poll it with setInterval";

export const fchmod = absent("fchmod", BY_PATH);
export const fchmodSync = absent("fchmodSync", BY_PATH);
export const futimes = absent("futimes", BY_PATH);
export const futimesSync = absent("futimesSync", BY_PATH);
export const lutimes = absent("lutimes", "use fs.utimes on the file itself");
export const lutimesSync = absent("lutimesSync", "use fs.utimesSync on the file itself");
export const lchmod = absent("lchmod", "use fs.chmod on the file itself");
export const lchmodSync = absent("lchmodSync", "use fs.chmodSync on the file itself");
export const chown = absent("chown", OWNERS);
export const chownSync = absent("chownSync", OWNERS);
export const fchown = absent("fchown", OWNERS);
export const fchownSync = absent("fchownSync", OWNERS);
export const lchown = absent("lchown", OWNERS);
export const lchownSync = absent("lchownSync", OWNERS);
export const statfs = absent("statfs", "the size of file systems is not told to extensions");
export const statfsSync = absent("statfsSync", "the size of file systems is not told to extensions");
export const createReadStream = absent("createReadStream", STREAMS);
export const createWriteStream = absent("createWriteStream", STREAMS);
export const watch = absent("watch", WATCHING);
export const watchFile = absent("watchFile", WATCHING);
export function unwatchFile(): void {}

const fs = {
  F_OK, R_OK, W_OK, X_OK, Dir, Dirent, Stats, BigIntStats, access, accessSync, appendFile, appendFileSync, chmod, chmodSync, chown, chownSync,
  close, closeSync, constants, copyFile, copyFileSync, cp, cpSync, createReadStream, createWriteStream, exists, existsSync,
  fchmod, fchmodSync, fchown, fchownSync, fdatasync, fdatasyncSync, fstat, fstatSync, fsync, fsyncSync, ftruncate, ftruncateSync,
  futimes, futimesSync, lchmod, lchmodSync, lchown, lchownSync, link, linkSync, lstat, lstatSync, lutimes, lutimesSync,
  mkdir, mkdirSync, mkdtemp, mkdtempSync, open, openSync, opendir, opendirSync, promises, read, readFile, readFileSync, readSync,
  readdir, readdirSync, readlink, readlinkSync, readvSync, realpath, realpathSync, rename, renameSync, rm, rmSync, rmdir, rmdirSync,
  stat, statSync, statfs, statfsSync, symlink, symlinkSync, truncate, truncateSync, unlink, unlinkSync, unwatchFile,
  utimes, utimesSync, watch, watchFile, write, writeFile, writeFileSync, writeSync, writevSync,
};

export default fs;
