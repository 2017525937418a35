/**
 * `node:child_process` over the `exec` hostcall.
 *
 * The host runs the program to its end and streams what it writes; there is no live stdin, so what is
 * written to it before `end()` is the input, and the program starts when it ends (or at once, when
 * nothing was written in the task that spawned it). Children are never detached and share no
 * descriptors: `stdio: "inherit"` goes to the log.
 */

import { encodeUtf8 } from "pi:engine";
import { HostcallError, attach, bytesOf, call, callSync } from "pi:hostcall";
import type { Answer } from "pi:hostcall";
import { checkString, coded, invalidArgType, notSupported } from "pi:node/errors";
import { systemError } from "pi:node/fs/error";
import { pathOf } from "pi:node/fs/requests";
import { Buffer } from "node:buffer";
import { EventEmitter } from "node:events";
import { StringDecoder } from "node:string_decoder";
import { AbortController } from "pi:web/abort";
import type { AbortSignal } from "pi:web/abort";
import { log } from "pi:web/console";
import { queueTick } from "pi:web/ticks";

type Stdio = "pipe" | "ignore" | "inherit" | number | null | undefined | object;

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

type ExecDone = (error: any, stdout: any, stderr: any) => void;

const MAX_BUFFER = 1024 * 1024;
const PROMISIFY = Symbol.for("nodejs.util.promisify.custom");

interface Program {
  file: string;
  args: string[];
  options: SpawnOptions;
}

/** `(file, args?, options?)`; a shell gets the words joined, unquoted, as Node does. */
function program(file: unknown, args: unknown, options: unknown): Program {
  checkString("file", file);
  if (file === "") throw coded(TypeError, "ERR_INVALID_ARG_VALUE", "The argument 'file' cannot be empty. Received ''");
  if (!Array.isArray(args)) [args, options] = [[], args ?? options];
  const settings = { ...((options ?? {}) as SpawnOptions) };
  const words = (args as unknown[]).map(String);
  if (!settings.shell) return { file, args: words, options: settings };
  const shell = typeof settings.shell === "string" ? settings.shell : "/bin/sh";
  return { file: shell, args: ["-c", [file, ...words].join(" ")], options: settings };
}

function paramsOf({ file, args, options }: Program, bytes: Uint8Array[], input: Uint8Array | undefined): Record<string, unknown> {
  const params: Record<string, unknown> = { command: file, args };
  if (options.cwd !== undefined && options.cwd !== null) params.cwd = pathOf(options.cwd, "options.cwd");
  if (options.env) params.env = Object.fromEntries(Object.entries(options.env).filter(([, value]) => value !== undefined).map(([name, value]) => [name, String(value)]));
  if (options.timeout) params.timeout = options.timeout;
  if (options.maxBuffer !== undefined && Number.isFinite(options.maxBuffer)) params.maxBuffer = options.maxBuffer;
  if (input && input.length > 0) params.input = attach(bytes, input);
  return params;
}

function inputOf(input: string | ArrayBufferView | undefined): Uint8Array | undefined {
  if (input === undefined || input === null) return undefined;
  if (typeof input === "string") return encodeUtf8(input.toWellFormed());
  if (ArrayBuffer.isView(input)) return new Uint8Array(input.buffer, input.byteOffset, input.byteLength);
  throw invalidArgType("options.input", "of type string or an instance of Buffer, TypedArray, or DataView", input);
}

function outputOf(answer: Answer, value: unknown): Buffer {
  const bytes = bytesOf(answer, value) ?? encodeUtf8(typeof value === "string" ? value : "");
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

/** A program that could not be started: Node's `spawn NAME ENOENT`. */
function spawnError(failure: unknown, syscall: string, { file, args }: Program): unknown {
  if (!(failure instanceof HostcallError)) return failure;
  const code = failure.code === "io" ? String(failure.details.errno ?? "EIO") : failure.code === "timeout" ? "ETIMEDOUT" : "EACCES";
  const error = systemError(code, `${syscall} ${file}`);
  Object.defineProperty(error, "message", { value: `${syscall} ${file} ${code}`, writable: true, configurable: true });
  Object.defineProperty(error, "cause", { value: failure, writable: true, configurable: true });
  return Object.assign(error, { path: file, spawnargs: args });
}

// Streaming form

/** What a child writes: the parts of a readable stream that its readers use. */
class ChildOutput extends EventEmitter {
  readable = true;
  #decoder: StringDecoder | undefined;
  #held: (Buffer | string)[] = [];
  #flowing = false;
  #ended = false;

  setEncoding(encoding: string): this {
    this.#decoder = new StringDecoder(encoding);
    return this;
  }
  override on(name: string | symbol, listener: (...args: any[]) => void): this {
    super.on(name, listener);
    if (name === "data") this.resume();
    return this;
  }
  override addListener(name: string | symbol, listener: (...args: any[]) => void): this {
    return this.on(name, listener);
  }
  resume(): this {
    if (!this.#flowing) {
      this.#flowing = true;
      queueTick(() => this.#drain());
    }
    return this;
  }
  pause(): this {
    this.#flowing = false;
    return this;
  }
  pipe<T extends { write(data: unknown): unknown; end?(): unknown }>(target: T): T {
    this.on("data", (data) => target.write(data));
    this.on("end", () => target.end?.());
    return target;
  }
  unref(): this {
    return this;
  }
  destroy(): this {
    this.removeAllListeners("data");
    return this;
  }

  _push(bytes: Uint8Array): void {
    const data = this.#decoder ? this.#decoder.write(bytes) : Buffer.from(bytes.buffer as ArrayBuffer, bytes.byteOffset, bytes.byteLength);
    if (data.length > 0) this.#held.push(data);
    if (this.#flowing) this.#drain();
  }
  _end(): void {
    const rest = this.#decoder?.end() ?? "";
    if (rest !== "") this.#held.push(rest);
    this.#ended = true;
    this.#flowing = true;
    this.#drain();
  }
  #drain(): void {
    while (this.#flowing && this.#held.length > 0) this.emit("data", this.#held.shift());
    if (this.#ended && this.#held.length === 0 && this.readable) {
      this.readable = false;
      this.emit("end");
      this.emit("close");
    }
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Buffer | string> {
    const ready: (Buffer | string)[] = [];
    let wake: (() => void) | undefined;
    let done = !this.readable;
    this.on("data", (data) => {
      ready.push(data);
      wake?.();
    });
    this.on("end", () => {
      done = true;
      wake?.();
    });
    for (;;) {
      while (ready.length > 0) yield ready.shift()!;
      if (done) return;
      await new Promise<void>((resolve) => (wake = resolve));
    }
  }
}

/** What a child reads: collected until `end()`. */
class ChildInput extends EventEmitter {
  writable = true;
  readonly _pieces: Uint8Array[] = [];
  _ended = false;
  _started = false;
  #ready: () => void;

  constructor(ready: () => void) {
    super();
    this.#ready = ready;
  }
  write(data: string | ArrayBufferView, encoding?: unknown, done?: unknown): boolean {
    const callback = typeof encoding === "function" ? encoding : done;
    if (this._ended || this._started) {
      const error = coded(Error, "EPIPE", "The program has started without live input: write to stdin and end() it in the task that spawns");
      queueTick(() => this.emit("error", error));
      return false;
    }
    this._pieces.push(typeof data === "string" ? Buffer.from(data, typeof encoding === "string" ? encoding : "utf8") : inputOf(data)!);
    if (typeof callback === "function") queueTick(() => callback());
    return true;
  }
  end(data?: string | ArrayBufferView, encoding?: unknown): this {
    if (this._ended) return this;
    if (data !== undefined && data !== null && typeof data !== "function") this.write(data, encoding);
    this._ended = true;
    this.writable = false;
    this.#ready();
    queueTick(() => {
      this.emit("finish");
      this.emit("close");
    });
    return this;
  }
  destroy(): this {
    return this.end();
  }
}

export class ChildProcess extends EventEmitter {
  readonly pid: number | undefined = undefined;
  readonly spawnfile: string;
  readonly spawnargs: string[];
  readonly stdin: ChildInput | null;
  readonly stdout: ChildOutput | null;
  readonly stderr: ChildOutput | null;
  readonly stdio: unknown[];
  readonly connected = false;
  exitCode: number | null = null;
  signalCode: string | null = null;
  killed = false;
  #program: Program;
  #abort = new AbortController();
  #killSignal: string | undefined;
  #started = false;

  constructor(what: Program) {
    super();
    this.#program = what;
    this.spawnfile = what.file;
    this.spawnargs = [what.file, ...what.args];
    const { stdio, signal } = what.options;
    const modes = Array.isArray(stdio) ? stdio : [stdio, stdio, stdio];
    const piped = (at: number) => modes[at] === undefined || modes[at] === null || modes[at] === "pipe" || modes[at] === "overlapped";
    this.stdin = piped(0) ? new ChildInput(() => this.#start()) : null;
    this.stdout = piped(1) ? new ChildOutput() : null;
    this.stderr = piped(2) ? new ChildOutput() : null;
    this.stdio = [this.stdin, this.stdout, this.stderr];
    this.#inherit = [modes[1] === "inherit", modes[2] === "inherit"];
    signal?.addEventListener("abort", () => this.kill(String(what.options.killSignal ?? "SIGTERM")), { once: true });
    queueTick(() => {
      if (!this.stdin || this.stdin._ended || this.stdin._pieces.length === 0) this.#start();
    });
  }

  #inherit: [boolean, boolean];

  /** Ends the program; true when it was still to end. */
  kill(signal: string | number = "SIGTERM"): boolean {
    if (this.exitCode !== null || this.signalCode !== null) return false;
    if (signal === 0) return true;
    this.killed = true;
    this.#killSignal = typeof signal === "string" ? signal : "SIGTERM";
    this.#abort.abort();
    return true;
  }
  ref(): void {}
  unref(): void {}
  disconnect(): void {}
  send(): never {
    throw notSupported("child.send", "talk to the program through its input and output");
  }

  #start(): void {
    if (this.#started) return;
    this.#started = true;
    if (this.stdin) this.stdin._started = true;
    const bytes: Uint8Array[] = [];
    const input = this.stdin && this.stdin._pieces.length > 0 ? Buffer.concat(this.stdin._pieces) : undefined;
    const params = { ...paramsOf(this.#program, bytes, input), stream: true };
    let streamed = false;
    const onChunk = (chunk: Answer) => {
      for (const [at, name] of ["stdout", "stderr"].entries()) {
        if (chunk.output[name] === undefined || chunk.output.code !== undefined) continue;
        streamed = true;
        this.#deliver(at, outputOf(chunk, chunk.output[name]));
      }
    };
    queueTick(() => this.emit("spawn"));
    call("exec", "exec", params, { bytes, signal: this.#abort.signal, onChunk }).then(
      (answer) => {
        if (!streamed) {
          this.#deliver(0, outputOf(answer, answer.output.stdout));
          this.#deliver(1, outputOf(answer, answer.output.stderr));
        }
        const signal = answer.output.signal ?? null;
        this.#exit(signal === null ? (answer.output.code ?? 0) : null, signal);
      },
      (failure) => {
        if (this.#killSignal) return this.#exit(null, this.#killSignal);
        this.exitCode = -2;
        queueTick(() => this.emit("error", spawnError(failure, "spawn", this.#program)));
        this.#finish(-2, null);
      },
    );
  }

  #deliver(at: number, bytes: Buffer): void {
    if (bytes.length === 0) return;
    if (this.#inherit[at]) log(at === 0 ? "info" : "error", at === 0 ? "stdout" : "stderr", bytes.toString().replace(/\n$/, ""));
    (at === 0 ? this.stdout : this.stderr)?._push(bytes);
  }

  #exit(code: number | null, signal: string | null): void {
    this.exitCode = code;
    this.signalCode = signal;
    queueTick(() => this.emit("exit", code, signal));
    this.#finish(code, signal);
  }

  #finish(code: number | null, signal: string | null): void {
    queueTick(() => {
      this.stdout?._end();
      this.stderr?._end();
      this.emit("close", code, signal);
    });
  }
}

export function spawn(file: string, args?: readonly string[] | SpawnOptions, options?: SpawnOptions): ChildProcess {
  return new ChildProcess(program(file, args, options));
}

// Collecting forms

function shown(output: Buffer, encoding: string | null | undefined, fallback: string | null): any {
  const chosen = encoding === undefined ? fallback : encoding;
  return chosen === null || chosen === "buffer" ? output : output.toString(chosen);
}

export function execFile(file: string, ...rest: any[]): ChildProcess {
  const done: ExecDone | undefined = typeof rest.at(-1) === "function" ? rest.pop() : undefined;
  const what = program(file, rest[0], rest[1]);
  const { encoding, timeout } = what.options;
  const limit = what.options.maxBuffer ?? MAX_BUFFER;
  const child = new ChildProcess({ ...what, options: { ...what.options, stdio: "pipe" } });
  const pieces: Buffer[][] = [[], []];
  const sizes = [0, 0];
  let failure: any;
  for (const [at, stream] of [child.stdout!, child.stderr!].entries()) {
    stream.on("data", (data: Buffer) => {
      const room = limit - sizes[at]!;
      pieces[at]!.push(data.length > room ? data.subarray(0, Math.max(0, room)) : data);
      sizes[at]! += data.length;
      if (data.length > room && !failure) {
        failure = coded(RangeError, "ERR_CHILD_PROCESS_STDIO_MAXBUFFER", `${at === 0 ? "stdout" : "stderr"} maxBuffer length exceeded`);
        child.kill();
      }
    });
  }
  child.on("error", (error) => (failure ??= error));
  child.on("close", (code: number | null, signal: string | null) => {
    if (!done) return;
    const [stdout, stderr] = pieces.map((list) => shown(Buffer.concat(list), encoding, "utf8"));
    const command = [what.file, ...what.args].join(" ");
    if (!failure && (code !== 0 || signal !== null)) {
      failure = new Error(`Command failed: ${command}\n${stderr}`);
      Object.assign(failure, { code, killed: child.killed || (timeout !== undefined && timeout > 0 && signal !== null), signal });
    }
    if (failure) {
      if (what.options.signal?.aborted) {
        failure = coded(Error, "ABORT_ERR", "The operation was aborted");
        Object.defineProperty(failure, "name", { value: "AbortError" });
      }
      Object.assign(failure, { cmd: what.options.shell || what.args[0] === "-c" ? (what.args[1] ?? command) : command });
      done(Object.assign(failure, { stdout, stderr }), stdout, stderr);
    } else done(null, stdout, stderr);
  });
  return child;
}

/** A command line for the shell. */
export function exec(command: string, ...rest: any[]): ChildProcess {
  checkString("command", command);
  const done = typeof rest.at(-1) === "function" ? rest.pop() : undefined;
  const options = { ...(rest[0] ?? {}) };
  const args = ["-c", command];
  const shell = typeof options.shell === "string" ? options.shell : "/bin/sh";
  return execFile(shell, args, { ...options, shell: false }, ...(done ? [done] : []));
}

for (const form of [exec, execFile] as ((...args: any[]) => ChildProcess)[]) {
  Object.defineProperty(form, PROMISIFY, {
    value: (...args: any[]) => {
      let child: ChildProcess | undefined;
      const promise = new Promise((resolve, reject) => {
        child = form(...args, (error: any, stdout: unknown, stderr: unknown) => (error ? reject(error) : resolve({ stdout, stderr })));
      });
      return Object.assign(promise, { child });
    },
  });
}

// Sync forms

interface SyncResult {
  pid: number;
  output: [null, any, any];
  stdout: any;
  stderr: any;
  status: number | null;
  signal: string | null;
  error?: unknown;
}

export function spawnSync(file: string, args?: readonly string[] | SpawnOptions, options?: SpawnOptions): SyncResult {
  const what = program(file, args, options);
  const { encoding } = what.options;
  const bytes: Uint8Array[] = [];
  const params = paramsOf(what, bytes, inputOf(what.options.input));
  params.maxBuffer ??= MAX_BUFFER;
  const result = (stdout: Buffer, stderr: Buffer, status: number | null, signal: string | null, error?: unknown): SyncResult => {
    const [out, err] = [shown(stdout, encoding, null), shown(stderr, encoding, null)];
    return { pid: 0, output: [null, out, err], stdout: out, stderr: err, status, signal, ...(error !== undefined && { error }) };
  };
  try {
    const answer = callSync("exec", "exec", params, bytes);
    const { stdout, stderr, code, signal, killed } = answer.output;
    const out = outputOf(answer, stdout);
    const err = outputOf(answer, stderr);
    const { stdio } = what.options;
    const mode = (at: number) => (Array.isArray(stdio) ? stdio[at] : stdio);
    if (mode(1) === "inherit" && out.length > 0) log("info", "stdout", out.toString().replace(/\n$/, ""));
    if (mode(2) === "inherit" && err.length > 0) log("error", "stderr", err.toString().replace(/\n$/, ""));
    const timedOut = killed && what.options.timeout ? spawnError(new HostcallError({ code: "timeout" }), "spawnSync", what) : undefined;
    return result(out, err, signal ? null : (code ?? 0), signal ?? null, timedOut);
  } catch (failure) {
    const none = Buffer.alloc(0);
    return result(none, none, null, null, spawnError(failure, "spawnSync", what));
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

export function execFileSync(file: string, args?: readonly string[] | SpawnOptions, options?: SpawnOptions): any {
  const what = program(file, args, options);
  return checked(spawnSync(what.file, what.args, { ...what.options, shell: false }), [what.file, ...what.args].join(" "));
}

export function execSync(command: string, options: SpawnOptions = {}): any {
  checkString("command", command);
  const shell = typeof options.shell === "string" ? options.shell : "/bin/sh";
  return checked(spawnSync(shell, ["-c", command], { ...options, shell: false }), command);
}

export function fork(): never {
  throw notSupported("child_process.fork", "there is no Node to run a module in; spawn a program");
}

export default { ChildProcess, exec, execFile, execFileSync, execSync, fork, spawn, spawnSync };
