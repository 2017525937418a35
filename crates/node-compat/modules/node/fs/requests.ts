/**
 * `pi:node/fs/requests`: every file operation as one request, shared by the three forms.
 *
 * An operation checks its arguments as Node does and returns a `Request`: the operation, its parameters, and the conversion of
 * the answer. The sync, callback and promise forms differ only in whether they call the host by `runSync` or `run`.
 */

import { encodeUtf8, facts, importSync } from "pi:engine";
import { attach, bytesOf, call, tryCallSync } from "pi:hostcall";
import type { Answer, Outcome, Params } from "pi:hostcall";
import { abortError, coded, invalidArgType, outOfRange } from "pi:node/errors";
import { constants } from "pi:node/fs/constants";
import { callError, fsError, systemError } from "pi:node/fs/error";
import { Dirent, statsFrom } from "pi:node/fs/stats";
import type { Kind, Stats } from "pi:node/fs/stats";
import type { Buffer as BufferType } from "node:buffer";
import { resolve } from "node:path";
import type { AbortSignal } from "pi:web/abort";

export type PathLike = string | Uint8Array | { href: string; protocol: string };
export type Encoding = string | { encoding?: string | null } | null | undefined;

/** The name of a file operation of the host. */
export type FileOp = Params<"fs">["op"];

export interface Request<T> {
  op: FileOp;
  params: Record<string, unknown>;
  value(answer: Answer): T;
  write?: boolean;
  bytes?: Uint8Array[];
  /** The path in errors. */
  path?: string | undefined;
  dest?: string | undefined;
  /** The operation's name in errors, if it differs. */
  shownAs?: string;
  signal?: AbortSignal | undefined;
}

export function runSync<T>(request: Request<T>): T {
  const outcome = outcomeOf(request);
  if (outcome.error !== undefined) throw callError(outcome.error, request.op, request.path, request.dest, request.shownAs);
  return request.value(outcome);
}

/** Returns undefined where `runSync` would throw the error of a failed call, for callers that do not show it. */
export function trySync<T>(request: Request<T>): T | undefined {
  const outcome = outcomeOf(request);
  return outcome.error === undefined ? request.value(outcome) : undefined;
}

function outcomeOf(request: Request<unknown>): Outcome {
  return tryCallSync("fs", capability(request), message(request), request.bytes);
}

export async function run<T>(request: Request<T>): Promise<T> {
  try {
    const options = { bytes: request.bytes, signal: request.signal };
    return request.value(await call("fs", capability(request), message(request), options));
  } catch (failure) {
    if (request.signal?.aborted) throw abortError(request.signal);
    throw fsError(failure, request.op, request.path, request.dest, request.shownAs);
  }
}

function capability(request: Request<unknown>): string {
  return request.write ? "write" : "read";
}

function message(request: Request<unknown>): Params<"fs"> {
  return { op: request.op, ...request.params } as Params<"fs">;
}

const nothing = () => undefined;

/** Loads Buffer on first use: most files are read as UTF-8 text. */
function buffers(): typeof BufferType {
  return importSync("node:buffer").Buffer;
}

const UTF8 = /^utf-?8$/i;
const ENCODINGS = /^(?:utf-?8|hex|ucs-?2|utf-?16le|latin1|binary|base64(?:url)?|ascii)$/i;

// Arguments

/** Returns a path as text. Accepts strings, file URLs and Buffers, like Node. */
export function pathOf(path: unknown, name: string = "path"): string {
  let text: unknown = path;
  if (path instanceof Uint8Array) text = buffers().from(path).toString("utf8");
  else if (typeof path === "object" && path !== null && "href" in path && "protocol" in path) text = fromUrl(path as any);
  if (typeof text !== "string") throw invalidArgType(name, "of type string or an instance of Buffer or URL", path);
  if (text.includes("\0")) {
    throw coded(TypeError, "ERR_INVALID_ARG_VALUE", `The argument '${name}' must be a string, Uint8Array, or URL without null bytes. Received ${importSync("pi:node/util/inspect").inspect(text)}`);
  }
  return text.toWellFormed();
}

function fromUrl(url: { protocol: string; hostname?: string; pathname?: string }): string {
  if (url.protocol !== "file:") throw coded(TypeError, "ERR_INVALID_URL_SCHEME", "The URL must be of scheme file");
  const { hostname = "", pathname = "" } = url;
  if (hostname !== "") throw coded(TypeError, "ERR_INVALID_FILE_URL_HOST", `File URL host must be "localhost" or empty on ${facts.platform ?? "linux"}`);
  if (/%2f/i.test(pathname)) {
    throw Object.assign(coded(TypeError, "ERR_INVALID_FILE_URL_PATH", "File URL path must not include encoded / characters"), { input: url });
  }
  return decodeURIComponent(pathname);
}

export function fdOf(fd: unknown): number {
  if (typeof fd !== "number") throw invalidArgType("fd", "of type number", fd);
  if (!Number.isInteger(fd)) throw outOfRange("fd", "an integer", fd);
  if (fd < 0 || fd > 2 ** 31 - 1) throw outOfRange("fd", ">= 0 && <= 2147483647", fd);
  return fd;
}

/** Returns `path` or `fd`, depending on the argument. */
function target(file: unknown): { path: string } | { fd: number } {
  if (typeof file === "number" && Number.isInteger(file)) return { fd: fdOf(file) };
  if (typeof file === "object" && file !== null && "fd" in file) return { fd: fdOf((file as { fd: unknown }).fd) };
  return { path: pathOf(file) };
}

function shown(where: { path: string } | { fd: number }): string | undefined {
  return "path" in where ? where.path : undefined;
}

/** Returns the encoding of an options argument; undefined and "buffer" mean bytes. */
export function encodingOf(options: Encoding, fallback?: string): string | undefined {
  if (!["string", "object", "undefined", "function"].includes(typeof options)) throw invalidArgType("options", "one of type string or object", options);
  const encoding = typeof options === "string" ? options : (options?.encoding ?? fallback);
  if (encoding === undefined || encoding === null || encoding === "buffer") return undefined;
  if (!ENCODINGS.test(encoding)) {
    throw coded(TypeError, "ERR_INVALID_ARG_VALUE", `The argument 'encoding' is invalid encoding. Received '${encoding}'`);
  }
  return encoding;
}

/** Returns a mode as a number. Octal text is accepted. */
export function modeOf(mode: unknown): number | undefined {
  if (mode === undefined || mode === null) return undefined;
  if (typeof mode === "string") {
    if (/^[0-7]+$/.test(mode)) return Number.parseInt(mode, 8);
    throw coded(TypeError, "ERR_INVALID_ARG_VALUE", `The argument 'mode' must be a 32-bit unsigned integer or an octal string. Received '${mode}'`);
  }
  if (typeof mode !== "number") throw invalidArgType("mode", "of type number", mode);
  if (!Number.isInteger(mode)) throw outOfRange("mode", "an integer", mode);
  if (mode < 0 || mode > 4294967295) throw outOfRange("mode", ">= 0 && <= 4294967295", mode);
  return mode;
}

/** Flags that Node's `open` accepts. */
const LETTERS = /^(?:r|rs|sr|w|wx|xw|a|ax|xa|as|sa)\+?$/;

/** Returns flags as text for the host. Numbers are converted to the letters that Node uses. */
export function flagsOf(flags: unknown, fallback: string): string {
  if (flags === undefined || flags === null) return fallback;
  if (typeof flags === "string" && LETTERS.test(flags)) return flags;
  if (typeof flags !== "number") {
    throw coded(TypeError, "ERR_INVALID_ARG_VALUE", `The argument 'flags' is invalid. Received ${importSync("node:util").inspect(flags)}`);
  }
  if (!Number.isInteger(flags)) throw outOfRange("flags", "an integer", flags);
  const exclusive = flags & constants.O_EXCL ? "x" : "";
  const update = (flags & 3) === constants.O_RDWR ? "+" : "";
  const sync = flags & constants.O_SYNC ? "s" : "";
  if (flags & constants.O_APPEND) return `a${exclusive}${sync}${update}`;
  if (flags & constants.O_TRUNC || flags & constants.O_EXCL) return `w${exclusive}${update}`;
  if (flags & constants.O_CREAT) return "a+";
  if ((flags & 3) === constants.O_WRONLY) return "r+";
  return `r${sync}${update}`;
}

/** Returns the bytes to write. */
export function dataOf(data: unknown, encoding: string | undefined): Uint8Array {
  if (typeof data === "string") {
    return encoding === undefined || UTF8.test(encoding) ? encodeUtf8(data.toWellFormed()) : buffers().from(data, encoding);
  }
  if (data instanceof Uint8Array) return data;
  if (ArrayBuffer.isView(data)) return new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
  throw invalidArgType("data", "of type string or an instance of Buffer, TypedArray, or DataView", data);
}

function text(bytes: Uint8Array, encoding: string | undefined): any {
  const buffer = buffers().from(bytes.buffer as ArrayBuffer, bytes.byteOffset, bytes.byteLength);
  return encoding === undefined ? buffer : buffer.toString(encoding);
}

function name(value: string, encoding: string | undefined): any {
  return encoding === undefined ? buffers().from(value) : UTF8.test(encoding) ? value : buffers().from(value).toString(encoding);
}

function milliseconds(time: unknown): number {
  if (time instanceof Date) return time.getTime();
  const seconds = typeof time === "string" ? Number(time) : time;
  if (typeof seconds !== "number" || Number.isNaN(seconds)) throw invalidArgType("time", "an instance of Date or an Time in seconds", time);
  return seconds * 1000;
}

// Whole files

interface ReadOptions {
  encoding?: string | null;
  flag?: string | number;
  signal?: AbortSignal;
}

export function readFile(file: unknown, options?: string | ReadOptions | null): Request<any> {
  const where = target(file);
  const encoding = encodingOf(options);
  const settings = typeof options === "object" && options !== null ? options : {};
  flagsOf(settings.flag, "r");
  // The host returns UTF-8 as text, which saves a copy and the decoding.
  const asText = encoding !== undefined && UTF8.test(encoding);
  return {
    op: "readFile",
    params: asText ? { ...where, encoding: "utf8" } : { ...where },
    path: shown(where),
    signal: settings.signal,
    value: (answer) => {
      if (asText && typeof answer.output.text === "string") return answer.output.text;
      return text(bytesOf(answer, answer.output.data) ?? new Uint8Array(0), encoding);
    },
  };
}

interface WriteOptions {
  encoding?: string | null;
  mode?: number | string;
  flag?: string | number;
  flush?: boolean;
  signal?: AbortSignal;
}

function writing(op: "writeFile" | "appendFile", flag: string, file: unknown, data: unknown, options?: string | WriteOptions | null): Request<undefined> {
  const where = target(file);
  const settings = typeof options === "object" && options !== null ? options : {};
  const bytes: Uint8Array[] = [];
  const params: Record<string, unknown> = { ...where, data: attach(bytes, dataOf(data, encodingOf(options, "utf8"))) };
  if ("path" in where) {
    params.flag = flagsOf(settings.flag, flag);
    const mode = modeOf(settings.mode);
    if (mode !== undefined) params.mode = mode;
  }
  return { op, params, bytes, write: true, path: shown(where), signal: settings.signal, value: nothing };
}

export function writeFile(file: unknown, data: unknown, options?: string | WriteOptions | null): Request<undefined> {
  return writing("writeFile", "w", file, data, options);
}

export function appendFile(file: unknown, data: unknown, options?: string | WriteOptions | null): Request<undefined> {
  return writing("appendFile", "a", file, data, options);
}

// Handles

export function open(path: unknown, flags?: unknown, mode?: unknown): Request<number> {
  const file = pathOf(path);
  const letters = flagsOf(flags, "r");
  const params: Record<string, unknown> = { path: file, flags: letters };
  const bits = modeOf(mode);
  if (bits !== undefined) params.mode = bits;
  return { op: "open", params, path: file, write: !/^(?:r|rs|sr)$/.test(letters), value: (answer) => answer.output.fd };
}

export function close(fd: unknown): Request<undefined> {
  return { op: "close", params: { fd: fdOf(fd) }, value: nothing };
}

export function fsync(fd: unknown): Request<undefined> {
  return { op: "fsync", params: { fd: fdOf(fd) }, value: nothing };
}
export function fdatasync(fd: unknown): Request<undefined> {
  return { op: "fdatasync", params: { fd: fdOf(fd) }, value: nothing };
}
export function fchmod(fd: unknown, mode: unknown): Request<undefined> {
  const bits = modeOf(mode);
  if (bits === undefined) throw invalidArgType("mode", "of type number", mode);
  return { op: "fchmod", params: { fd: fdOf(fd), mode: bits }, write: true, value: nothing };
}
export function futimes(fd: unknown, atime: unknown, mtime: unknown): Request<undefined> {
  return { op: "futimes", params: { fd: fdOf(fd), atimeMs: milliseconds(atime), mtimeMs: milliseconds(mtime) }, write: true, value: nothing };
}

/** Reads into `buffer`. Returns the number of bytes. */
export function read(fd: unknown, buffer: ArrayBufferView, offset: number, length: number, position?: number | bigint | null): Request<number> {
  const view = new Uint8Array(buffer.buffer, buffer.byteOffset, buffer.byteLength);
  if (offset < 0 || offset > view.length) throw outOfRange("offset", `>= 0 && <= ${view.length}`, offset);
  if (length < 0 || length > view.length - offset) throw outOfRange("length", `>= 0 && <= ${view.length - offset}`, length);
  const params: Record<string, unknown> = { fd: fdOf(fd), length };
  if (position !== undefined && position !== null && Number(position) >= 0) params.position = Number(position);
  return {
    op: "read",
    params,
    value: (answer) => {
      const data = bytesOf(answer, answer.output.data) ?? new Uint8Array(0);
      view.set(data, offset);
      return data.length;
    },
  };
}

export function write(fd: unknown, data: Uint8Array, position?: number | null): Request<number> {
  const bytes: Uint8Array[] = [];
  const params: Record<string, unknown> = { fd: fdOf(fd), data: attach(bytes, data) };
  if (typeof position === "number") params.position = position;
  return { op: "write", params, bytes, write: true, value: (answer) => answer.output.bytesWritten };
}

export function fstat(fd: unknown, options?: { bigint?: boolean }): Request<Stats> {
  return { op: "fstat", params: { fd: fdOf(fd) }, value: (answer) => statsFrom(answer.output, options) };
}

export function ftruncate(fd: unknown, len?: number | null): Request<undefined> {
  return { op: "ftruncate", params: { fd: fdOf(fd), len: Math.max(0, len ?? 0) }, write: true, value: nothing };
}

// Metadata

export function stat(op: "stat" | "lstat", path: unknown, options?: { bigint?: boolean }): Request<Stats> {
  const file = pathOf(path);
  return { op, params: { path: file }, path: file, value: (answer) => statsFrom(answer.output, options) };
}

const SIZES = ["type", "bsize", "blocks", "bfree", "bavail", "files", "ffree"] as const;

/** The result of `statfs`. Like Node, this module does not export the class. */
class StatFs {}

/** Returns the sizes of the file system of `path`. */
export function statfs(path: unknown, options?: { bigint?: boolean }): Request<StatFs> {
  const file = pathOf(path);
  const value = (answer: Answer) => {
    const sizes = SIZES.map((name) => [name, options?.bigint ? BigInt(answer.output[name]) : answer.output[name]]);
    return Object.assign(new StatFs(), Object.fromEntries(sizes));
  };
  return { op: "statfs", params: { path: file }, path: file, value };
}

/**
 * Checks an ownership change, which extensions cannot make. Atomic writes restore the owner of a file (`write-file-atomic`, and
 * packages that store settings with it): an unchanged owner succeeds, and any other fails as it does for a user who is not
 * root.
 */
function keepOwner(make: Request<Stats>, op: "chown" | "fchown" | "lchown", uid: unknown, gid: unknown): Request<undefined> {
  const wanted = { uid: idOf("uid", uid), gid: idOf("gid", gid) };
  return {
    ...make,
    shownAs: op,
    value(answer) {
      const owner = make.value(answer) as unknown as Record<"uid" | "gid", number>;
      const keeps = (which: "uid" | "gid") => [-1, 0xffff_ffff, owner[which]].includes(wanted[which]);
      if (!keeps("uid") || !keeps("gid")) throw systemError("EPERM", op, make.path);
      return undefined;
    },
  };
}

export function chown(op: "chown" | "lchown", path: unknown, uid: unknown, gid: unknown): Request<undefined> {
  return keepOwner(stat(op === "chown" ? "stat" : "lstat", path), op, uid, gid);
}

export function fchown(fd: unknown, uid: unknown, gid: unknown): Request<undefined> {
  return keepOwner(fstat(fd), "fchown", uid, gid);
}

/** Returns the id of a user or a group. -1 keeps the current one. */
function idOf(name: string, id: unknown): number {
  if (typeof id !== "number") throw invalidArgType(name, "of type number", id);
  if (!Number.isInteger(id)) throw outOfRange(name, "an integer", id);
  if (id < -1 || id > 0xffff_ffff) throw outOfRange(name, ">= -1 && <= 4294967295", id);
  return id;
}

interface ReaddirOptions {
  encoding?: string | null;
  withFileTypes?: boolean;
  recursive?: boolean;
}

interface WireEntry {
  name: string;
  parent: string;
  kind: Kind;
}

/** Orders a tree as Node walks it: the first pending folder is next or, in the promise form, the last. */
function walkedThrough(entries: WireEntry[], takesLast: boolean): WireEntry[] {
  const within = new Map<string, WireEntry[]>();
  for (const entry of entries) {
    const siblings = within.get(entry.parent);
    if (siblings === undefined) within.set(entry.parent, [entry]);
    else siblings.push(entry);
  }
  const found: WireEntry[] = [];
  const folders = [""];
  while (folders.length > 0) {
    for (const entry of within.get(takesLast ? folders.pop()! : folders.shift()!) ?? []) {
      found.push(entry);
      folders.push(entry.parent ? `${entry.parent}/${entry.name}` : entry.name);
    }
  }
  return found;
}

/** Returns the request for entries in the promise form. */
export function readdirLater(path: unknown, options?: string | ReaddirOptions | null): Request<any[]> {
  return readdir(path, options, true);
}

export function readdir(path: unknown, options?: string | ReaddirOptions | null, takesLast = false): Request<any[]> {
  const folder = pathOf(path);
  const encoding = encodingOf(options, "utf8");
  const asBuffers = (typeof options === "string" ? options : options?.encoding) === "buffer";
  const settings = typeof options === "object" && options !== null ? options : {};
  const recursive = Boolean(settings.recursive);
  const spell = (value: string) => name(value, asBuffers ? undefined : encoding);
  return {
    op: "readdir",
    params: recursive ? { path: folder, recursive } : { path: folder },
    path: folder,
    value: (answer) =>
      (recursive ? walkedThrough(answer.output.entries, takesLast) : (answer.output.entries as WireEntry[])).map((entry) => {
        if (settings.withFileTypes) return new Dirent(spell(entry.name), beside(folder, entry.parent), entry.kind);
        return spell(entry.parent ? `${entry.parent}/${entry.name}` : entry.name);
      }),
  };
}

function beside(folder: string, parent: string): string {
  if (!parent) return folder;
  return folder.endsWith("/") ? folder + parent : `${folder}/${parent}`;
}

export function readlink(path: unknown, options?: Encoding): Request<any> {
  const file = pathOf(path);
  return { op: "readlink", params: { path: file }, path: file, value: (answer) => name(answer.output.target, encodingOf(options, "utf8")) };
}

export function realpath(path: unknown, options?: Encoding): Request<any> {
  const file = pathOf(path);
  return { op: "realpath", params: { path: file }, path: file, value: (answer) => name(answer.output.path, encodingOf(options, "utf8")) };
}

/** Returns the entries of a recursive read. Node walks it folder by folder, so errors name the whole path. */
export function walked(path: unknown, options?: Encoding): Request<any> {
  return { ...realpath(path, options), path: resolve(facts.cwd ?? "/", pathOf(path)), shownAs: "lstat" };
}

export function access(path: unknown, mode: number = constants.F_OK): Request<undefined> {
  const file = pathOf(path);
  if (typeof mode !== "number") throw coded(TypeError, "ERR_INVALID_ARG_TYPE", "mode must be int32 or null/undefined");
  if (mode < 0 || mode > 7) throw coded(RangeError, "ERR_OUT_OF_RANGE", "mode is out of range: >= 0 && <= 7");
  return { op: "access", params: { path: file, mode }, path: file, value: nothing };
}

export function exists(path: unknown): Request<boolean> {
  const file = pathOf(path);
  return { op: "exists", params: { path: file }, path: file, value: (answer) => answer.output.exists === true };
}

// Modification

interface MkdirOptions {
  recursive?: boolean;
  mode?: number | string;
}

export function mkdir(path: unknown, options?: number | string | MkdirOptions | null): Request<string | undefined> {
  const folder = pathOf(path);
  const settings: MkdirOptions = typeof options === "object" && options !== null ? options : { ...(options != null && { mode: options }) };
  const params: Record<string, unknown> = { path: folder };
  if (isOn("recursive", settings.recursive)) params.recursive = true;
  const mode = modeOf(settings.mode);
  if (mode !== undefined) params.mode = mode;
  return { op: "mkdir", params, path: folder, write: true, value: (answer) => (settings.recursive ? asGiven(folder, answer.output.first ?? undefined) : undefined) };
}

/** Returns the first created folder in the form of the given path, relative or absolute. */
function asGiven(path: string, made: string | undefined): string | undefined {
  const here = `${facts.cwd ?? ""}/`;
  return made !== undefined && !path.startsWith("/") && made.startsWith(here) ? made.slice(here.length) : made;
}

/** Returns an optional boolean option. */
function isOn(option: string, value: unknown): boolean {
  if (value !== undefined && typeof value !== "boolean") throw invalidArgType(`options.${option}`, "of type boolean", value);
  return value === true;
}

export function mkdtemp(prefix: unknown, options?: Encoding): Request<any> {
  const start = pathOf(prefix, "prefix");
  return {
    op: "mkdtemp",
    params: { prefix: start },
    // As in Node's messages, which precede the choice of the random part.
    path: start + "X".repeat(6),
    write: true,
    value: (answer) => name(answer.output.path, encodingOf(options, "utf8")),
  };
}

export function rm(path: unknown, options?: { recursive?: boolean; force?: boolean } | null): Request<undefined> {
  const file = pathOf(path);
  const params: Record<string, unknown> = { path: file };
  if (isOn("recursive", options?.recursive)) params.recursive = true;
  if (isOn("force", options?.force)) params.force = true;
  return { op: "rm", params, path: file, write: true, value: nothing };
}

/** Operations on one path without options: rmdir, unlink. */
export function onPath(op: "rmdir" | "unlink", path: unknown): Request<undefined> {
  const file = pathOf(path);
  return { op, params: { path: file }, path: file, write: true, value: nothing };
}

export function rmdir(path: unknown, options?: { recursive?: boolean } | null): Request<undefined> {
  return options?.recursive ? rm(path, { recursive: true }) : onPath("rmdir", path);
}

export function unlink(path: unknown): Request<undefined> {
  return onPath("unlink", path);
}

/** Operations from one path to another: rename, link. */
function between(op: "rename" | "link" | "copyFile" | "cp", from: unknown, to: unknown, more: Record<string, unknown> = {}): Request<undefined> {
  const params = { from: pathOf(from, "oldPath"), to: pathOf(to, "newPath"), ...more };
  return { op, params, path: params.from, dest: params.to, write: true, value: nothing };
}

export function rename(from: unknown, to: unknown): Request<undefined> {
  return between("rename", from, to);
}

export function link(from: unknown, to: unknown): Request<undefined> {
  return between("link", from, to);
}

export function copyFile(from: unknown, to: unknown, mode: number = 0): Request<undefined> {
  return between("copyFile", from, to, mode & constants.COPYFILE_EXCL ? { exclusive: true } : {});
}

interface CopyOptions {
  recursive?: boolean;
  force?: boolean;
  errorOnExist?: boolean;
}

export function cp(from: unknown, to: unknown, options: CopyOptions = {}): Request<undefined> {
  const more: Record<string, unknown> = {};
  if (options.recursive) more.recursive = true;
  if (options.force === false) more.force = false;
  if (options.errorOnExist) more.errorOnExist = true;
  return between("cp", from, to, more);
}

export function symlink(to: unknown, path: unknown): Request<undefined> {
  const params = { target: pathOf(to, "target"), path: pathOf(path) };
  return { op: "symlink", params, path: params.target, dest: params.path, write: true, value: nothing };
}

export function truncate(path: unknown, len?: number | null): Request<undefined> {
  const file = pathOf(path);
  return { op: "truncate", params: { path: file, len: Math.max(0, len ?? 0) }, path: file, write: true, value: nothing };
}

export function chmod(path: unknown, mode: unknown): Request<undefined> {
  const file = pathOf(path);
  const bits = modeOf(mode);
  if (bits === undefined) throw invalidArgType("mode", "of type number", mode);
  return { op: "chmod", params: { path: file, mode: bits }, path: file, write: true, value: nothing };
}

export function utimes(path: unknown, atime: unknown, mtime: unknown, op: "utimes" | "lutimes" = "utimes"): Request<undefined> {
  const file = pathOf(path);
  return { op, params: { path: file, atimeMs: milliseconds(atime), mtimeMs: milliseconds(mtime) }, path: file, write: true, value: nothing };
}
export function lutimes(path: unknown, atime: unknown, mtime: unknown): Request<undefined> {
  return { ...utimes(path, atime, mtime, "lutimes"), shownAs: "lutime" };
}
