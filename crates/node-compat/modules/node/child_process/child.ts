/**
 * `pi:node/child_process/child`: a running program with Node's interface: an emitter with three streams.
 *
 * Starting is a synchronous hostcall, so the pid is known at once; one awaited call then brings the
 * output and the end. `exit` is emitted with that end, or earlier if descendants of the program hold its pipes;
 * `close` when every stream has been read to its end. An unread stream is drained, as in Node.
 */

import { importSync } from "pi:engine";
import { HostcallError, attach, call, callSync } from "pi:hostcall";
import type { Answer, Params } from "pi:hostcall";
import { abortError, coded, notSupported } from "pi:node/errors";
import { Buffer } from "node:buffer";
import { EventEmitter } from "node:events";
import { Readable, Writable } from "node:stream";
import { inputOf, outputOf, paramsOf, spawnError } from "pi:node/child_process/program";
import type { Program, Stdio } from "pi:node/child_process/program";
import { signalName, started } from "pi:node/child_process/signals";
import { AbortController } from "pi:web/abort";
import { log } from "pi:web/console";
import { queueTick } from "pi:web/ticks";
import { clearTimeout, setImmediate, setTimeout } from "pi:web/timers";

type Done = (error?: unknown) => void;

const exec = (params: Params<"exec">, bytes: Uint8Array[] = []) => call("exec", "exec", params, { bytes });

/** Creates the stream of the child's input, whose end closes the program's input; `ending` lasts until the host is notified. */
function inputStream(pid: number): any {
  const stream: any = new Writable({
    write(chunk: Buffer, _encoding: string, done: Done) {
      const bytes: Uint8Array[] = [];
      exec({ op: "write", pid, data: attach(bytes, inputOf(chunk)!) }, bytes).then(
        () => done(),
        (failure) => done(pipeError(failure)),
      );
    },
    final(done: Done) {
      const ended = () => {
        stream.ending = undefined;
        done();
      };
      stream.ending = exec({ op: "end", pid }).then(ended, ended);
    },
    destroy(error: unknown, done: Done) {
      if (!stream.writableFinished) void exec({ op: "end", pid }).catch(() => {});
      done(error);
    },
  });
  return stream;
}

function pipeError(failure: unknown): unknown {
  if (!(failure instanceof HostcallError)) return failure;
  const isDenied = failure.code === "denied";
  const code = isDenied ? "EACCES" : String(failure.details.errno ?? "EPIPE");
  const error = coded(Error, code, isDenied ? `write EACCES: ${failure.message}: ${failure.details.hint ?? ""}` : `write ${code}`);
  return Object.assign(error, { errno: isDenied ? -13 : -32, syscall: "write", cause: failure });
}

/** The target of stdout or stderr. */
type Target = { stream?: any; level?: "info" | "error"; fd?: number };

function targetOf(mode: Stdio, at: 1 | 2, isListed: boolean): Target {
  if (mode === undefined || mode === null || mode === "pipe" || mode === "overlapped") return { stream: new Readable({ read() {} }) };
  if (mode === "ignore") return {};
  const level = at === 1 ? "info" : "error";
  const fd = typeof mode === "number" ? mode : typeof mode === "object" ? (mode as any).fd : undefined;
  if (mode === "inherit" || fd === 1 || fd === 2) return { level: fd === 1 ? "info" : fd === 2 ? "error" : level };
  if (typeof fd === "number") return { fd };
  if (mode === "ipc") throw notSupported("child_process stdio 'ipc'", "talk to the program through its input and output");
  const shown = importSync("pi:node/util/inspect").inspect(mode);
  if (isListed) throw coded(TypeError, "ERR_INVALID_SYNC_FORK_INPUT", `Asynchronous forks do not support Buffer, TypedArray, DataView or string input: ${shown}`);
  throw coded(TypeError, "ERR_INVALID_ARG_VALUE", `The argument 'stdio' is invalid. Received ${shown}`);
}

export class ChildProcess extends EventEmitter {
  pid: number | undefined = undefined;
  readonly spawnfile: string;
  readonly spawnargs: string[];
  stdin: any = null;
  stdout: any = null;
  stderr: any = null;
  stdio: any[];
  readonly connected = false;
  exitCode: number | null = null;
  signalCode: string | null = null;
  killed = false;
  #abort = new AbortController();
  #targets: Target[] = [];
  #open = 1;
  #hasExited = false;
  #timer: unknown;

  constructor(what: Program) {
    super();
    this.spawnfile = what.file;
    this.spawnargs = what.options.argv0 === undefined ? [what.file, ...what.args] : [String(what.options.argv0), ...what.args];
    const { stdio, signal, timeout, killSignal } = what.options;
    const modes = Array.isArray(stdio) ? stdio : [stdio, stdio, stdio];
    if (modes.slice(3).some((mode) => mode !== "ignore" && mode !== undefined && mode !== null)) {
      throw notSupported("child_process stdio beyond stderr", "talk to the program through its input and output");
    }
    const takesInput = modes[0] === undefined || modes[0] === null || modes[0] === "pipe" || modes[0] === "overlapped";
    this.#targets = [targetOf(modes[1], 1, Array.isArray(stdio)), targetOf(modes[2], 2, Array.isArray(stdio))];
    const failure = this.#spawn(what, takesInput);
    // A child that failed to start has streams all the same: callers add listeners before the failure is reported.
    if (failure !== undefined && takesInput) this.stdin = new Writable({ write: (_chunk: Buffer, _encoding: string, done: Done) => done() });
    this.stdout = this.#targets[0]!.stream ?? null;
    this.stderr = this.#targets[1]!.stream ?? null;
    this.stdio = [this.stdin, this.stdout, this.stderr];
    for (const stream of [this.stdout, this.stderr]) {
      if (!stream) continue;
      this.#open++;
      stream.on("close", () => this.#maybeClose());
    }
    if (failure !== undefined) {
      this.#failed(failure);
      return;
    }
    queueTick(() => this.emit("spawn"));
    if (timeout && timeout > 0) this.#timer = setTimeout(() => this.kill(killSignal), timeout);
    if (signal) {
      const onAbort = () => {
        if (this.exitCode !== null || this.signalCode !== null) return;
        this.kill(killSignal);
        this.emit("error", abortError(signal));
      };
      if (signal.aborted) queueTick(onAbort);
      else {
        signal.addEventListener("abort", onAbort, { once: true });
        this.once("exit", () => signal.removeEventListener("abort", onAbort));
      }
    }
    this.#wait();
  }

  /** Starts the program. Returns the error, if any. */
  #spawn(what: Program, takesInput: boolean): unknown {
    const params: Params<"exec"> = { op: "spawn", ...paramsOf(what), ...(takesInput && { stdin: "pipe" as const }) };
    try {
      const { output } = callSync("exec", "exec", params);
      if (output.error) return spawnError(output.error, "spawn", what);
      this.pid = output.pid;
      started.add(output.pid);
      if (takesInput) this.stdin = inputStream(output.pid);
      return undefined;
    } catch (failure) {
      return spawnError(failure, "spawn", what);
    }
  }

  #failed(error: unknown): void {
    queueTick(() => {
      const { errno } = error as { errno?: unknown };
      this.exitCode = typeof errno === "number" ? errno : -2;
      this.stdin?.destroy();
      for (const { stream } of this.#targets) {
        stream?.push(null);
        stream?.resume();
      }
      this.emit("error", error);
      this.#maybeClose();
    });
  }

  #wait(): void {
    const onChunk = (chunk: Answer) => {
      for (const [at, name] of ["stdout", "stderr"].entries()) {
        if (chunk.output?.[name] !== undefined) this.#deliver(this.#targets[at]!, outputOf(chunk, chunk.output[name]));
      }
      const exit = chunk.output?.exit;
      if (exit) this.#ended(exit.code ?? null, exit.signal ?? null, false);
    };
    call("exec", "exec", { op: "wait", pid: this.pid! }, { signal: this.#abort.signal, onChunk }).then(
      ({ output }) => this.#ended(output.signal ? null : (output.code ?? 0), output.signal ?? null, true),
      (failure) => {
        this.#ended(null, "SIGKILL", true);
        if (!(failure instanceof HostcallError)) throw failure;
      },
    );
  }

  #deliver(target: Target, bytes: Buffer): void {
    if (bytes.length === 0) return;
    if (target.stream) {
      if (!target.stream.destroyed) target.stream.push(bytes);
    } else if (target.level) log(target.level, target.level === "info" ? "stdout" : "stderr", bytes.toString().replace(/\n$/, ""));
    else if (target.fd !== undefined) {
      const data: Uint8Array[] = [];
      callSync("fs", "write", { op: "write", fd: target.fd, data: attach(data, inputOf(bytes)!) }, data);
    }
  }

  /** Runs the callback of `end` first, which may read the output, so nothing is drained before it. */
  #ended(code: number | null, signal: string | null, isAll: boolean): void {
    const exit = () => this.#exit(code, signal, isAll);
    if (this.stdin?.ending) void this.stdin.ending.then(() => setImmediate(exit));
    else exit();
  }

  /** Handles the exit of the program, and with `isAll` the end of its output. */
  #exit(code: number | null, signal: string | null, isAll: boolean): void {
    if (isAll) for (const { stream } of this.#targets) stream?.push(null);
    if (this.#hasExited) return;
    this.#hasExited = true;
    clearTimeout(this.#timer);
    this.exitCode = code;
    this.signalCode = signal;
    this.stdin?.destroy();
    this.emit("exit", code, signal);
    queueTick(() => {
      for (const { stream } of this.#targets) if (stream?.readable) stream.resume();
    });
    this.#maybeClose();
  }

  #maybeClose(): void {
    if (--this.#open === 0) this.emit("close", this.exitCode, this.signalCode);
  }

  /** Sends a signal; returns whether the program was still running. */
  kill(signal?: string | number): boolean {
    if (signal !== 0) signal = signalName(signal);
    if (this.pid === undefined || this.exitCode !== null || this.signalCode !== null) return false;
    if (signal === 0) return true;
    const { sent } = callSync("exec", "exec", { op: "kill", pid: this.pid, signal }).output;
    if (sent) this.killed = true;
    return Boolean(sent);
  }
  [Symbol.dispose ?? Symbol.for("dispose")](): void {
    if (!this.killed) this.kill();
  }
  ref(): void {}
  unref(): void {}
  disconnect(): void {}
  send(): never {
    throw notSupported("child.send", "talk to the program through its input and output");
  }
}
