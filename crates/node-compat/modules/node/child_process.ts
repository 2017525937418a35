/**
 * `node:child_process` over the `exec` hostcall.
 *
 * Children are never detached and share no descriptors: `stdio: "inherit"` writes to the log. They are killed with
 * the extension. `fork` is refused, since there is no Node to run.
 */

import { HostcallError, callSync } from "pi:hostcall";
import { checkString, coded, invalidArgType, outOfRange } from "pi:node/errors";
import { signalName } from "pi:node/child_process/signals";
import { absent } from "pi:node/refuse";
import { ChildProcess } from "pi:node/child_process/child";
import { inputOf, outputOf, program, spawnError, wholeParams } from "pi:node/child_process/program";
import type { SpawnOptions } from "pi:node/child_process/program";
import { Buffer } from "node:buffer";
import { log } from "pi:web/console";
import { clearTimeout, setTimeout } from "pi:web/timers";

export { ChildProcess };
export type { SpawnOptions };

type ExecDone = (error: any, stdout: any, stderr: any) => void;

const MAX_BUFFER = 1024 * 1024;
const PROMISIFY = Symbol.for("nodejs.util.promisify.custom");

export function spawn(file: string, args?: readonly string[] | SpawnOptions, options?: SpawnOptions): ChildProcess {
  return new ChildProcess(program(file, args, options));
}

// Forms that collect output

function shown(output: Buffer, encoding: string | null | undefined, fallback: string | null): any {
  const chosen = encoding === undefined ? fallback : encoding;
  return chosen === null || chosen === "buffer" || !Buffer.isEncoding(chosen) ? output : output.toString(chosen);
}

export function execFile(file: string, ...rest: any[]): ChildProcess {
  const [args, options, done] = split(rest, true);
  return collect(file, args, options ?? undefined, done);
}

/** Splits `(args?, options?, callback?)`, each of which may be left out. */
function split(given: any[], hasArgs: boolean): [any, any, ExecDone | undefined] {
  const rest = [...given];
  const args = !hasArgs ? undefined : Array.isArray(rest[0]) || rest[0] === undefined || rest[0] === null ? rest.shift() : undefined;
  const options = typeof rest[0] === "function" ? undefined : rest.shift();
  const [done] = rest;
  if (done !== undefined && done !== null && typeof done !== "function") throw invalidArgType("callback", "of type function", done);
  return [args, options, done ?? undefined];
}

/** Runs a program with pipes, and collects its output. Readers of its streams get text, unless bytes are requested. */
function collect(file: string, args: any, given: any, done: ExecDone | undefined, command?: string): ChildProcess {
  const what = program(file, args, given);
  const { killSignal, timeout } = what.options;
  const limit = what.options.maxBuffer ?? MAX_BUFFER;
  const asked = what.options.encoding === undefined ? "utf8" : what.options.encoding;
  const encoding = typeof asked === "string" && asked !== "buffer" && Buffer.isEncoding(asked) ? asked : undefined;
  const child = new ChildProcess({ ...what, options: { ...what.options, stdio: "pipe", timeout: undefined } });
  const pieces: (Buffer | string)[][] = [[], []];
  const sizes = [0, 0];
  let failure: any;
  let killed = false;
  let isOver = false;
  let timer: unknown;
  const finish = (code: number | null, signal: string | null) => {
    if (isOver) return;
    isOver = true;
    clearTimeout(timer);
    if (!done) return;
    const [stdout, stderr] = [child.stdout, child.stderr].map((stream, at) =>
      stream.readableEncoding ? pieces[at]!.join("") : Buffer.concat(pieces[at] as Buffer[]),
    );
    if (!failure && code === 0 && signal === null) return done(null, stdout, stderr);
    const line = command ?? [what.file, ...what.args].join(" ");
    failure ??= Object.assign(new Error(`Command failed: ${line}\n${stderr}`), { code, killed: child.killed || killed, signal });
    done(Object.assign(failure, { cmd: line }), stdout, stderr);
  };
  // Descendants may keep the program's pipes open long after it exits; the result does not wait for them.
  const letGo = () => {
    child.stdout.destroy();
    child.stderr.destroy();
  };
  const kill = () => {
    letGo();
    killed = true;
    child.kill(killSignal);
  };
  for (const [at, stream] of [child.stdout, child.stderr].entries()) {
    if (encoding !== undefined) stream.setEncoding(encoding);
    stream.on("data", (data: Buffer | string) => {
      const { readableEncoding } = stream;
      const length = readableEncoding ? Buffer.byteLength(data as string, readableEncoding) : data.length;
      const room = limit - sizes[at]!;
      sizes[at]! += length;
      pieces[at]!.push(length > room ? data.slice(0, room) : data);
      if (length <= room) return;
      failure = coded(RangeError, "ERR_CHILD_PROCESS_STDIO_MAXBUFFER", `${at === 0 ? "stdout" : "stderr"} maxBuffer length exceeded`);
      kill();
    });
  }
  if (timeout && timeout > 0) timer = setTimeout(kill, timeout);
  child.on("close", finish);
  child.on("error", (error) => {
    failure = error;
    letGo();
    finish(null, null);
  });
  return child;
}

function checkCommand(command: unknown): void {
  checkString("command", command);
  if (command === "") throw coded(TypeError, "ERR_INVALID_ARG_VALUE", "The argument 'file' cannot be empty. Received ''");
}

/** Runs a command line in the shell. */
export function exec(command: string, ...rest: any[]): ChildProcess {
  checkCommand(command);
  const [, given, done] = split(rest, false);
  const options = { ...(given ?? {}) };
  const shell = typeof options.shell === "string" ? options.shell : "/bin/sh";
  return collect(shell, ["-c", command], { ...options, shell: false }, done, command);
}

for (const form of [exec, execFile] as ((...args: any[]) => ChildProcess)[]) {
  Object.defineProperty(form, PROMISIFY, {
    value: (...args: any[]) => {
      let child: ChildProcess | undefined;
      const promise = new Promise((resolve, reject) => {
        child = form(...args, (error: any, stdout: unknown, stderr: unknown) => (error ? reject(Object.assign(error, { stdout, stderr })) : resolve({ stdout, stderr })));
      });
      return Object.assign(promise, { child });
    },
  });
}

// Synchronous forms

interface SyncResult {
  pid: number;
  output: [null, any, any] | null;
  stdout: any;
  stderr: any;
  status: number | null;
  signal: string | null;
  error?: unknown;
}

export function spawnSync(file: string, args?: readonly string[] | SpawnOptions, options?: SpawnOptions): SyncResult {
  const what = program(file, args, options);
  const { encoding, stdio, killSignal, maxBuffer } = what.options;
  if (maxBuffer !== undefined && maxBuffer !== null && !(typeof maxBuffer === "number" && maxBuffer >= 0)) {
    throw outOfRange("options.maxBuffer", "a positive number", maxBuffer);
  }
  const bytes: Uint8Array[] = [];
  const params = wholeParams(what, bytes, inputOf(what.options.input));
  params.maxBuffer ??= MAX_BUFFER;
  // Requests bytes, because text would lose invalid UTF-8.
  params.encoding = "buffer";
  const mode = (at: number) => (Array.isArray(stdio) ? stdio[at] : stdio);
  const piped = (at: number) => mode(at) === undefined || mode(at) === null || mode(at) === "pipe";
  try {
    const answer = callSync("exec", "exec", params, bytes);
    const { code, signal, killed, error } = answer.output;
    if (error) throw error;
    const outputs = [outputOf(answer, answer.output.stdout), outputOf(answer, answer.output.stderr)];
    for (const at of [1, 2] as const) {
      const output = outputs[at - 1]!;
      if (mode(at) === "inherit" && output.length > 0) log(at === 1 ? "info" : "error", at === 1 ? "stdout" : "stderr", output.toString().replace(/\n$/, ""));
    }
    const [out, err] = outputs.map((output, at) => (piped(at + 1) ? shown(output, encoding, null) : null));
    const overflows = Boolean(answer.output.truncated);
    // The closed pipe may have ended the program before the signal did; the result is the same.
    const ended: string | null = overflows ? signalName(killSignal) : (signal ?? null);
    let failure: unknown;
    if (overflows) failure = spawnError(new HostcallError({ code: "io", details: { errno: "ENOBUFS" } }), "spawnSync", what);
    else if (killed && what.options.timeout) failure = spawnError(new HostcallError({ code: "timeout" }), "spawnSync", what);
    return {
      ...(failure !== undefined && { error: failure }),
      status: ended ? null : (code ?? 0), signal: ended, output: [null, out, err], pid: answer.output.pid ?? 0, stdout: out, stderr: err,
    };
  } catch (failure) {
    const error = spawnError(failure, "spawnSync", what);
    return { error, status: null, signal: null, output: null, pid: 0, stdout: undefined, stderr: undefined };
  }
}

function checked(result: SyncResult, command: string): any {
  if (result.error) throw Object.assign(result.error as object, result, { error: result.error });
  if (result.status !== 0) {
    const stderr = result.stderr?.toString() ?? "";
    throw Object.assign(new Error(`Command failed: ${command}${stderr === "" ? "" : `\n${stderr}`}`), result);
  }
  return result.stdout;
}

/** Forwards the program's stderr if the options have no `stdio`. */
function passErrors(result: SyncResult, options: SpawnOptions | undefined): SyncResult {
  if (!options?.stdio && result.stderr?.length > 0) log("error", "stderr", result.stderr.toString().replace(/\n$/, ""));
  return result;
}

export function execFileSync(file: string, args?: readonly string[] | SpawnOptions, options?: SpawnOptions): any {
  const what = program(file, args, options);
  return checked(passErrors(spawnSync(what.file, what.args, { ...what.options, shell: false }), what.options), [what.file, ...what.args].join(" "));
}

export function execSync(command: string, options: SpawnOptions = {}): any {
  checkCommand(command);
  const shell = typeof options.shell === "string" ? options.shell : "/bin/sh";
  return checked(passErrors(spawnSync(shell, ["-c", command], { ...options, shell: false }), options), command);
}

export const fork = absent("child_process.fork", "there is no Node to run a module in; spawn a program");

export default { ChildProcess, exec, execFile, execFileSync, execSync, fork, spawn, spawnSync };
