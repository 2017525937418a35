/**
 * `pi:node/fs/error`: a failed `fs` hostcall as the error Node would have thrown.
 *
 * `io` becomes an Error with errno, code, syscall, path and dest and Node's message. A refusal of the
 * gate is `EACCES` with the taxonomy's error as its cause, so that code written for Node treats it as
 * a file it may not touch, and a person still sees why. A look at what lies in a folder above the project
 * is `ENOENT`: a search upwards, for a `.git` say, ends there as it ends at the top of the file system.
 */

import { facts } from "pi:engine";
import { HostcallError } from "pi:hostcall";
import { coded } from "pi:node/errors";
import { constants } from "pi:node/os/constants";
import { wordsOf } from "pi:node/util/errno";
import { dirname, resolve } from "node:path";

/** Node's names for system calls, where they differ from the op. */
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

/** Ops of a search for a file. */
const LOOKS = new Set(["access", "lstat", "readFile", "stat"]);

/** Whether something lies beside the folders that lead to the project; those themselves are there. */
function isAboveProject(path: string): boolean {
  const cwd: string = facts.cwd ?? "/";
  const holds = (folder: string) => cwd.startsWith(folder.endsWith("/") ? folder : `${folder}/`);
  const whole = resolve(cwd, path);
  return !holds(whole) && holds(dirname(whole)) && dirname(whole) !== cwd;
}

export interface SystemError extends Error {
  code: string;
  errno: number;
  syscall: string;
  path?: string;
  dest?: string;
}

/** An error as libuv's failures look. */
export function systemError(code: string, syscall: string, path?: string, dest?: string): SystemError {
  const where = path === undefined ? "" : dest === undefined ? ` '${path}'` : ` '${path}' -> '${dest}'`;
  const error = new Error(`${code}: ${wordsOf(code) ?? "operation failed"}, ${syscall}${where}`) as SystemError;
  error.errno = -(constants.errno[code] ?? 1);
  error.code = code;
  error.syscall = syscall;
  if (path !== undefined) error.path = path;
  if (dest !== undefined) error.dest = dest;
  return error;
}

/** What Node finds out itself and not by a system call: the folder given to `rm` and `cp` without `recursive`. */
function isFolder(op: "rm" | "cp", path: string): SystemError {
  const words = op === "rm" ? "is a directory" : `${path} is a directory (not copied)`;
  const error: any = coded(Error, "ERR_FS_EISDIR", `Path is a directory: ${op} returned EISDIR (${words}) ${path}`);
  Object.defineProperty(error, "name", { value: "SystemError", writable: true, enumerable: false, configurable: true });
  return Object.assign(error, { errno: constants.errno.EISDIR, syscall: op, path });
}

/** What an op throws for a failed call; other exceptions pass through. */
export function fsError(failure: unknown, op: string, path?: string, dest?: string, shownAs?: string): unknown {
  if (!(failure instanceof HostcallError)) return failure;
  const syscall = shownAs ?? SYSCALLS[op] ?? op;
  if (failure.code === "io") {
    const { errno, syscall: real, path: seen, dest: target } = failure.details;
    const code = typeof errno === "string" ? errno : "EIO";
    if (op === "rm" && code === "EISDIR" && path !== undefined) return isFolder(op, path);
    // Both look at the file before they do anything.
    if ((op === "rm" || op === "cp") && code === "ENOENT") return systemError(code, "lstat", path);
    // The file was there to be opened.
    if (real === "read") return systemError(code, real);
    return systemError(code, shownAs === undefined && typeof real === "string" ? real : syscall, path ?? seen, dest ?? target);
  }
  if (failure.code === "denied" || failure.code === "timeout") {
    const refusal = LOOKS.has(op) && path !== undefined && isAboveProject(path) ? "ENOENT" : "EACCES";
    const error = systemError(failure.code === "denied" ? refusal : "ETIMEDOUT", syscall, path, dest);
    Object.defineProperty(error, "cause", { value: failure, writable: true, enumerable: false, configurable: true });
    return error;
  }
  if (failure.code === "invalid_request") {
    const error = coded(TypeError, "ERR_INVALID_ARG_VALUE", `fs.${op}: ${failure.message}`);
    Object.defineProperty(error, "cause", { value: failure, writable: true, enumerable: false, configurable: true });
    return error;
  }
  return failure;
}
