/**
 * `pi:node/fs/error`: converts a failed `fs` hostcall to the error that Node would throw.
 *
 * `io` becomes an Error with errno, code, syscall, path and dest and Node's message. A refusal of the gate is `EACCES` with the
 * taxonomy's error as its cause, so that code written for Node treats it as an inaccessible file, and the user still sees the
 * reason. A probe in a folder above the project is `ENOENT`: an upward search, such as for `.git`, stops there as at the root of
 * the file system.
 */

import { facts } from "pi:engine";
import type { Failure } from "pi:engine";
import { HostcallError } from "pi:hostcall";
import { coded } from "pi:node/errors";
import { constants } from "pi:node/os/constants";
import { wordsOf } from "pi:node/util/errno";
import { dirname, resolve } from "node:path";

/** Names of system calls in Node, where they differ from the operation. */
const SYSCALLS: Record<string, string> = {
  readFile: "open",
  writeFile: "open",
  appendFile: "open",
  copyFile: "copyfile",
  readdir: "scandir",
  truncate: "open",
  utimes: "utime",
  exists: "access",
  lutimes: "lutime",
};

/** Operations that search for a file. */
const LOOKS = new Set(["access", "lstat", "readFile", "stat"]);

/** Returns whether a path is outside of the folders that lead to the project; those folders exist. */
function isAboveProject(path: string): boolean {
  const cwd: string = facts.cwd ?? "/";
  const holds = (folder: string) => cwd.startsWith(folder.endsWith("/") ? folder : `${folder}/`);
  const whole = resolve(cwd, path);
  return !holds(whole) && holds(dirname(whole)) && dirname(whole) !== cwd;
}

export interface FailedCall extends Error {
  code: string;
  errno: number;
  syscall: string;
  path?: string;
  dest?: string;
}

/** Returns an error in the form of libuv's failures. */
export function systemError(code: string, syscall: string, path?: string, dest?: string): FailedCall {
  const where = path === undefined ? "" : dest === undefined ? ` '${path}'` : ` '${path}' -> '${dest}'`;
  const error = new Error(`${code}: ${wordsOf(code) ?? "operation failed"}, ${syscall}${where}`) as FailedCall;
  error.errno = -(constants.errno[code] ?? 1);
  error.code = code;
  error.syscall = syscall;
  if (path !== undefined) error.path = path;
  if (dest !== undefined) error.dest = dest;
  return error;
}

class SystemError extends Error {}

/** Returns an error that Node detects itself rather than by a system call. */
function found(op: "rm" | "cp", code: string, what: string, errno: "EISDIR" | "EEXIST", words: string, path: string): FailedCall {
  const error: any = coded(SystemError, code, `${what}: ${op} returned ${errno} (${words}) ${path}`);
  Object.defineProperty(error, "name", { value: "SystemError", writable: true, enumerable: false, configurable: true });
  const info = { code: errno, message: words, path, syscall: op, errno: constants.errno[errno] };
  return Object.assign(error, { info, errno: info.errno, syscall: op, path });
}

/** Returns the error that `rm` and `cp` detect before they change anything. */
function seenBefore(op: "rm" | "cp", code: string, path: string, dest: string | undefined): FailedCall | undefined {
  // Both operations call `lstat` first.
  if (code === "ENOENT") return systemError(code, "lstat", path);
  if (op === "rm") return code === "EISDIR" ? found(op, "ERR_FS_EISDIR", "Path is a directory", code, "is a directory", path) : undefined;
  if (code === "EEXIST") return found(op, "ERR_FS_CP_EEXIST", "Target already exists", code, `${dest} already exists`, dest!);
  if (code === "EISDIR") return found(op, "ERR_FS_EISDIR", "Path is a directory", code, `${path} is a directory (not copied)`, path);
  return undefined;
}

const thrown = (failure: Failure): HostcallError => (failure instanceof HostcallError ? failure : new HostcallError(failure));

/** Sets the cause, unless the failure is the system's, whose message is complete. */
export function explain(error: object, failure: Failure): void {
  if (failure.code === "io" || failure.code === "timeout") return;
  Object.defineProperty(error, "cause", { value: thrown(failure), writable: true, enumerable: false, configurable: true });
}

/** Returns the error of a failed operation. Other exceptions pass through unchanged. */
export function fsError(failure: unknown, op: string, path?: string, dest?: string, shownAs?: string): unknown {
  return failure instanceof HostcallError ? callError(failure, op, path, dest, shownAs) : failure;
}

/** Returns the error of a failed call. Only an error that shows the failure as its cause makes an error of it, too. */
export function callError(failure: Failure, op: string, path?: string, dest?: string, shownAs?: string): Error {
  const details: Record<string, any> = failure.details ?? {};
  const isCycle = shownAs === "lstat" && details.errno === "ELOOP";
  const syscall = isCycle ? "stat" : (shownAs ?? SYSCALLS[op] ?? op);
  if (failure.code === "io") {
    const { errno, syscall: real, path: seen, dest: target } = details;
    const code = typeof errno === "string" ? errno : "EIO";
    const early = (op === "rm" || op === "cp") && path !== undefined ? seenBefore(op, code, path, dest) : undefined;
    if (early) return early;
    // The file existed when it was opened, so the error names no path.
    if (real === "read") return systemError(code, real);
    return systemError(code, shownAs === undefined && typeof real === "string" ? real : syscall, path ?? seen, dest ?? target);
  }
  if (failure.code === "denied" || failure.code === "timeout") {
    const refusal = LOOKS.has(op) && path !== undefined && isAboveProject(path) ? "ENOENT" : "EACCES";
    const error = systemError(failure.code === "denied" ? refusal : "ETIMEDOUT", syscall, path, dest);
    explain(error, failure);
    return error;
  }
  if (failure.code === "invalid_request") {
    // An empty path never exists, and Node reports it only as missing.
    if (path === "") return systemError("ENOENT", syscall, path, dest);
    const error = coded(TypeError, "ERR_INVALID_ARG_VALUE", `fs.${op}: ${failure.message}`);
    explain(error, failure);
    return error;
  }
  return thrown(failure);
}
