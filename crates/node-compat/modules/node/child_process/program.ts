/** `pi:node/child_process/program`: the program, its options and the host's answer, shared by all forms. */

import { encodeUtf8, importSync } from "pi:engine";
import { HostcallError, attach, bytesOf } from "pi:hostcall";
import type { Answer, Params } from "pi:hostcall";
import { inherited } from "pi:node/environment";
import { checkString, coded, invalidArgType, notSupported, outOfRange } from "pi:node/errors";
import { explain, systemError } from "pi:node/fs/error";
import { signalName } from "pi:node/child_process/signals";
import { pathOf } from "pi:node/fs/requests";
import { Buffer } from "node:buffer";
import { AbortSignal } from "pi:web/abort";

export type Stdio = "pipe" | "overlapped" | "ignore" | "inherit" | "ipc" | number | null | undefined | object;

export interface SpawnOptions {
  cwd?: unknown;
  env?: Record<string, string | undefined>;
  shell?: boolean | string;
  stdio?: Stdio | Stdio[];
  timeout?: number;
  killSignal?: string | number;
  maxBuffer?: number;
  encoding?: string | null;
  input?: string | ArrayBufferView;
  signal?: AbortSignal;
  windowsHide?: boolean;
  [other: string]: unknown;
}

export interface Program {
  file: string;
  args: string[];
  options: SpawnOptions;
}

/** Types of the options, in the order in which Node checks them. */
const TYPES: Record<string, string[]> = {
  detached: ["boolean"], shell: ["boolean", "string"], argv0: ["string"], windowsHide: ["boolean"], windowsVerbatimArguments: ["boolean"],
};

function checkOptions(settings: SpawnOptions): void {
  for (const [name, types] of Object.entries(TYPES)) {
    const value = settings[name];
    if (value === undefined || value === null || types.includes(typeof value)) continue;
    throw invalidArgType(`options.${name}`, types.length > 1 ? `one of type ${types.join(" or ")}` : `of type ${types[0]}`, value);
  }
  const { timeout, signal, killSignal, serialization } = settings;
  if (timeout !== undefined && timeout !== null && !(Number.isInteger(timeout) && timeout >= 0)) {
    throw outOfRange("timeout", "an unsigned integer", timeout);
  }
  if (serialization !== undefined && serialization !== "json" && serialization !== "advanced") {
    throw coded(TypeError, "ERR_INVALID_ARG_VALUE", `The property 'options.serialization' must be one of: undefined, 'json', 'advanced'. Received ${shown(serialization)}`);
  }
  if (signal !== undefined && !(signal instanceof AbortSignal)) throw invalidArgType("options.signal", "an instance of AbortSignal", signal);
  if (killSignal !== undefined && killSignal !== null) signalName(killSignal);
}

const shown = (value: unknown): string => importSync("pi:node/util/inspect").inspect(value);

/** Reads `(file, args?, options?)`. The arguments for a shell are joined without quotes, as in Node. */
export function program(file: unknown, args: unknown, options: unknown): Program {
  checkString("file", file);
  if (file === "") throw coded(TypeError, "ERR_INVALID_ARG_VALUE", "The argument 'file' cannot be empty. Received ''");
  if (!Array.isArray(args)) {
    if (args !== undefined && args !== null && typeof args !== "object") throw invalidArgType("args", "of type object", args);
    [args, options] = [[], args ?? options];
  }
  if (options !== undefined && (typeof options !== "object" || options === null || Array.isArray(options))) throw invalidArgType("options", "of type object", options);
  const settings = { ...((options ?? {}) as SpawnOptions) };
  for (const member of ["uid", "gid"]) {
    if (settings[member] !== undefined) throw notSupported(`child_process option ${member}`, "programs run as the user of pi");
  }
  const words = (args as unknown[]).map(String);
  for (const [at, word] of [file, ...words].entries()) {
    if (!word.includes("\0")) continue;
    throw coded(TypeError, "ERR_INVALID_ARG_VALUE", `The argument '${at === 0 ? "file" : `args[${at - 1}]`}' must be a string without null bytes. Received ${shown(word)}`);
  }
  checkOptions(settings);
  if (!settings.shell) return { file, args: words, options: settings };
  const shell = typeof settings.shell === "string" ? settings.shell : "/bin/sh";
  return { file: shell, args: ["-c", [file, ...words].join(" ")], options: settings };
}

/** Parameters of a program that runs to its end in one call. */
export type WholeParams = Omit<Extract<Params<"exec">, { command: string; op?: null }>, "op">;

/** Parameters of a program that is started. */
export type StartParams = Pick<WholeParams, "command" | "args" | "cwd" | "env" | "inherits">;

export function paramsOf({ file, args, options }: Program): StartParams {
  const params: StartParams = { command: file.toWellFormed(), args: args.map((text) => text.toWellFormed()) };
  if (options.cwd !== undefined && options.cwd !== null) params.cwd = pathOf(options.cwd, "options.cwd");
  const own = options.env ? undefined : inherited();
  if (own) params.inherits = true;
  const env = options.env ?? own;
  for (const [name, value] of Object.entries(options.env ?? {})) {
    if (value === undefined) continue;
    for (const text of [name, String(value)]) {
      if (text.includes("\0")) throw coded(TypeError, "ERR_INVALID_ARG_VALUE", `The property 'options.env['${name}']' must be a string without null bytes. Received ${shown(text)}`);
    }
  }
  if (env) params.env = Object.fromEntries(Object.entries(env).filter(([, value]) => value !== undefined).map(([name, value]) => [name.toWellFormed(), String(value).toWellFormed()]));
  return params;
}

/** Returns the parameters of a program that runs to its end in one call. */
export function wholeParams(what: Program, bytes: Uint8Array[], input: Uint8Array | undefined): WholeParams {
  const params: WholeParams = paramsOf(what);
  const { timeout, maxBuffer } = what.options;
  if (timeout) params.timeout = timeout;
  if (maxBuffer !== undefined && Number.isFinite(maxBuffer)) params.maxBuffer = maxBuffer;
  if (input && input.length > 0) params.input = attach(bytes, input);
  return params;
}

export function inputOf(input: string | ArrayBufferView | undefined): Uint8Array | undefined {
  if (input === undefined || input === null) return undefined;
  if (typeof input === "string") return encodeUtf8(input.toWellFormed());
  if (ArrayBuffer.isView(input)) return new Uint8Array(input.buffer, input.byteOffset, input.byteLength);
  throw invalidArgType("options.stdio[0]", "of type string or an instance of Buffer, TypedArray, or DataView", input);
}

export function outputOf(answer: Answer, value: unknown): Buffer {
  const bytes = bytesOf(answer, value) ?? encodeUtf8(typeof value === "string" ? value : "");
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

/** Returns the error of a program that could not be started: Node's `spawn NAME ENOENT`. */
export function spawnError(failure: unknown, syscall: string, { file, args }: Program): unknown {
  let code: string;
  if (failure instanceof HostcallError) code = failure.code === "io" ? String(failure.details.errno ?? "EIO") : failure.code === "timeout" ? "ETIMEDOUT" : "EACCES";
  else if (typeof (failure as any)?.errno === "string") code = (failure as any).errno;
  else return failure;
  const error = systemError(code, `${syscall} ${file}`);
  Object.defineProperty(error, "message", { value: `${syscall} ${file} ${code}`, writable: true, configurable: true });
  if (failure instanceof HostcallError) explain(error, failure);
  return Object.assign(error, { path: file, spawnargs: args });
}
