/**
 * `node:process`: what an extension may see of a process.
 *
 * Environment variables that need no grant are facts; any other name is asked for by a sync `env` call
 * when it is read, and is undefined when it is not granted. Assignments stay in the realm. Nothing here
 * reaches the host's own process: `exit`, `kill`, `chdir` say what to do instead.
 */

import { decodeUtf8, elapsedMs, facts } from "pi:engine";
import { callSync } from "pi:hostcall";
import { checkFunction, coded, invalidArgType, notSupported } from "pi:node/errors";
import { EventEmitter } from "node:events";
import { log } from "pi:web/console";
import { queueTick } from "pi:web/ticks";

type Names = Record<string, string>;

const NODE_VERSION: string = facts.node_version ?? "22.20.0";

/** What was set, asked for or deleted; undefined stands for "not there". */
const local = new Map<string, string | undefined>(Object.entries((facts.env ?? {}) as Names));

function variable(name: string): string | undefined {
  if (local.has(name)) return local.get(name);
  let value: string | undefined;
  try {
    value = callSync("env", "env", { op: "get", names: [name] }).output.values?.[name];
  } catch {
    // Not granted looks like not set, and is asked again: a grant may come later.
    return undefined;
  }
  local.set(name, value);
  return value;
}

function known(): string[] {
  return [...local.keys()].filter((name) => local.get(name) !== undefined);
}

function describe(name: PropertyKey): PropertyDescriptor | undefined {
  const value = typeof name === "string" ? variable(name) : undefined;
  return value === undefined ? undefined : { value, writable: true, enumerable: true, configurable: true };
}

/** Enumerating shows the plain variables and those that were read or set. */
export const env: Names = new Proxy({} as Names, {
  get: (target, name) => (typeof name === "string" ? (variable(name) ?? (Object.prototype as any)[name]) : Reflect.get(target, name)),
  set: (_target, name, value) => {
    if (typeof name === "symbol" || typeof value === "symbol") throw new TypeError("Cannot convert a Symbol value to a string");
    local.set(name, String(value));
    return true;
  },
  has: (_target, name) => typeof name === "string" && variable(name) !== undefined,
  deleteProperty: (_target, name) => {
    if (typeof name === "string") local.set(name, undefined);
    return true;
  },
  ownKeys: known,
  getOwnPropertyDescriptor: (_target, name) => describe(name),
  defineProperty: (_target, name, descriptor) => {
    if (typeof name === "string" && "value" in descriptor) local.set(name, String(descriptor.value));
    return true;
  },
});

/** stdout and stderr: lines become log messages; an unfinished line waits for its end or the next task. */
class Output extends EventEmitter {
  readonly writable = true;
  readonly isTTY = false;
  readonly fd: number;
  columns: number | undefined = facts.columns;
  rows: number | undefined = facts.rows;
  #held = "";
  #level: "info" | "error";

  constructor(fd: number) {
    super();
    this.fd = fd;
    this.#level = fd === 2 ? "error" : "info";
  }

  write(data: unknown, encoding?: unknown, done?: unknown): boolean {
    const callback = typeof encoding === "function" ? encoding : done;
    if (typeof data !== "string" && !(data instanceof Uint8Array)) throw invalidArgType("chunk", "of type string or an instance of Buffer or Uint8Array", data);
    if (facts.observesEvents === true) {
      log(this.#level, this.fd === 2 ? "stderr" : "stdout", typeof data === "string" ? data : decodeUtf8(data, false, false));
      if (typeof callback === "function") queueTick(() => callback());
      return true;
    }
    this.#held += typeof data === "string" ? data : decodeUtf8(data, false, false);
    const end = this.#held.lastIndexOf("\n");
    if (end >= 0) {
      log(this.#level, this.fd === 2 ? "stderr" : "stdout", this.#held.slice(0, end));
      this.#held = this.#held.slice(end + 1);
    }
    if (this.#held !== "") {
      queueTick(() => {
        if (this.#held === "") return;
        log(this.#level, this.fd === 2 ? "stderr" : "stdout", this.#held);
        this.#held = "";
      });
    }
    if (typeof callback === "function") queueTick(() => callback());
    return true;
  }
  end(data?: unknown): this {
    if (data !== undefined) this.write(data);
    return this;
  }
  cork(): void {}
  uncork(): void {}
  getColorDepth(): number {
    return 1;
  }
  hasColors(): boolean {
    return false;
  }
  getWindowSize(): [number, number] {
    return [this.columns ?? 80, this.rows ?? 24];
  }
}

/** stdin: always at its end; keys reach an extension through pi's UI. */
class Input extends EventEmitter {
  readonly isTTY = false;
  readonly fd = 0;
  readonly readable = false;
  isRaw = false;
  setRawMode(): this {
    return this;
  }
  setEncoding(): this {
    return this;
  }
  resume(): this {
    return this;
  }
  pause(): this {
    return this;
  }
  read(): null {
    return null;
  }
  ref(): this {
    return this;
  }
  unref(): this {
    return this;
  }
}

function hrtimeOf(previous?: [number, number]): [number, number] {
  const now = elapsedMs();
  let seconds = Math.floor(now / 1000);
  let nanos = Math.round((now % 1000) * 1e6);
  if (previous) {
    seconds -= previous[0];
    nanos -= previous[1];
    if (nanos < 0) {
      seconds--;
      nanos += 1e9;
    }
  }
  return [seconds, nanos];
}

/** Memory belongs to the realm's limits, which the host reports; these are constants of a small program. */
const MEMORY = { rss: 64 << 20, heapTotal: 32 << 20, heapUsed: 16 << 20, external: 1 << 20, arrayBuffers: 0 };

type WarningOptions = { type?: string; code?: string; detail?: string };

class Process extends EventEmitter {
  readonly title = "pi";
  readonly version = `v${NODE_VERSION}`;
  readonly versions: Names = { node: NODE_VERSION, pijs: facts.pijs_version ?? "0.1.0" };
  readonly release = { name: "node" };
  readonly platform: string = facts.platform ?? "linux";
  readonly arch: string = facts.arch ?? "x64";
  readonly pid: number = facts.pid ?? 1;
  readonly ppid: number = facts.ppid ?? 0;
  readonly execPath: string = facts.exec_path ?? "/usr/bin/node";
  readonly argv0 = "node";
  argv: string[] = [...(facts.argv ?? [facts.exec_path ?? "node", "pi"])];
  execArgv: string[] = [];
  env = env;
  exitCode: number | undefined = undefined;
  readonly config = { target_defaults: {}, variables: {} };
  readonly features = {};
  readonly stdout = new Output(1);
  readonly stderr = new Output(2);
  readonly stdin = new Input();

  cwd(): string {
    return facts.cwd ?? "/";
  }
  chdir(): never {
    throw notSupported("process.chdir", "pass absolute paths, or cwd to exec");
  }
  umask(): number {
    return 0o022;
  }
  nextTick(callback: (...args: any[]) => void, ...args: unknown[]): void {
    checkFunction("callback", callback);
    queueTick(() => callback(...args));
  }
  readonly hrtime = Object.assign((previous?: [number, number]) => hrtimeOf(previous), {
    bigint: () => BigInt(Math.round(elapsedMs() * 1e6)),
  });
  uptime(): number {
    return elapsedMs() / 1000;
  }
  readonly memoryUsage = Object.assign(() => ({ ...MEMORY }), { rss: () => MEMORY.rss });
  cpuUsage(): { user: number; system: number } {
    return { user: 0, system: 0 };
  }
  resourceUsage(): Record<string, number> {
    return { userCPUTime: 0, systemCPUTime: 0, maxRSS: MEMORY.rss / 1024 };
  }
  getuid(): number {
    return facts.uid ?? 1000;
  }
  geteuid(): number {
    return this.getuid();
  }
  getgid(): number {
    return facts.gid ?? 1000;
  }
  getegid(): number {
    return this.getgid();
  }
  getgroups(): number[] {
    return [this.getgid()];
  }

  /** An extension does not end the program it is a guest of. */
  exit(code?: number): never {
    throw coded(Error, "ERR_PROCESS_EXIT", `process.exit(${code ?? ""}) was called by an extension: use ctx.shutdown() to end pi, or return`);
  }
  reallyExit(code?: number): never {
    return this.exit(code);
  }
  abort(): never {
    throw coded(Error, "ERR_PROCESS_EXIT", "process.abort() was called by an extension: throw an error instead");
  }
  /** Signal 0 asks whether the extension's own process lives; others are not its to send. */
  kill(pid: number, signal?: string | number): true {
    if (signal === 0 && pid === this.pid) return true;
    throw coded(Error, "EPERM", `kill EPERM: process.kill(${pid}) is not available in a PiJS realm: end a child with its kill() method`);
  }

  emitWarning(warning: string | Error, type?: string | WarningOptions | Function, code?: string): void {
    const options: WarningOptions = typeof type === "object" && type !== null ? type : typeof type === "string" ? { type, ...(code && { code }) } : {};
    const error = warning instanceof Error ? warning : new Error(String(warning));
    if (!(warning instanceof Error)) {
      Object.defineProperty(error, "name", { value: options.type ?? "Warning", writable: true, configurable: true });
      if (options.code) (error as any).code = options.code;
    }
    queueTick(() => {
      const shown = (error as any).code ? `[${(error as any).code}] ` : "";
      log("warn", "warning", `${shown}${error.name}: ${error.message}${options.detail ? `\n${options.detail}` : ""}`);
      this.emit("warning", error);
    });
  }

  binding(): never {
    throw notSupported("process.binding", "use the documented modules");
  }
  getBuiltinModule(): undefined {
    return undefined;
  }

  get [Symbol.toStringTag](): string {
    return "process";
  }
}

const single = new Process();

export const process = single;
export default single;

const bound = <K extends keyof Process>(name: K): Process[K] => (single[name] as any).bind(single);
export const cwd = bound("cwd");
export const chdir = bound("chdir");
export const umask = bound("umask");
export const nextTick = bound("nextTick");
export const uptime = bound("uptime");
export const exit = bound("exit");
export const kill = bound("kill");
export const emitWarning = bound("emitWarning");
export const getuid = bound("getuid");
export const getgid = bound("getgid");
export const on = bound("on");
export const once = bound("once");
export const off = bound("off");
export const emit = bound("emit");
export const cpuUsage = bound("cpuUsage");
export const { title, version, versions, release, platform, arch, pid, ppid, execPath, argv, execArgv, argv0, hrtime, memoryUsage, stdout, stderr, stdin, config, features } = single;
