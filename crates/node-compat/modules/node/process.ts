/**
 * `node:process`: the parts of a process that an extension may see.
 *
 * Nothing here reaches the host's own process: `exit` asks the session to end, `kill` and `chdir` throw a hint.
 */

import { decodeUtf8, elapsedMs, facts, importSync } from "pi:engine";
import { callSync } from "pi:hostcall";
import { signalName, started } from "pi:node/child_process/signals";
import { checkFunction, checkString, coded, invalidArgType, outOfRange } from "pi:node/errors";
import { env, type Names } from "pi:node/environment";
import { constants } from "pi:node/os/constants";
import { absent } from "pi:node/refuse";
import { EventEmitter } from "node:events";
import { log } from "pi:web/console";
import { isTerminal, size } from "pi:node/terminals";
import { queueTick } from "pi:web/ticks";
import { exiting, listenWith } from "pi:web/uncaught";

export { env };

const NODE_VERSION: string = facts.node_version ?? "22.20.0";

/** Whether listeners of `exit` have been called. */
let isExiting = false;

/** stdout and stderr: lines become log messages. An unfinished line is buffered until it ends, or until the next task. */
class Output extends EventEmitter {
  readonly writable = true;
  declare readonly isTTY?: true;
  readonly fd: number;
  columns: number | undefined;
  rows: number | undefined;
  #held = "";
  #level: "info" | "error";

  constructor(fd: number) {
    super();
    this.fd = fd;
    if (isTerminal(fd)) {
      Object.assign(this, { isTTY: true });
      [this.columns, this.rows] = size;
    }
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
    const { NO_COLOR, TERM } = env;
    if (!this.isTTY || (NO_COLOR !== undefined && NO_COLOR !== "") || TERM === "dumb") return 1;
    return TERM !== undefined && /256/.test(TERM) ? 8 : 4;
  }
  hasColors(count: unknown = 16): boolean {
    return (typeof count === "number" ? count : 16) <= 2 ** this.getColorDepth();
  }
  getWindowSize(): [number, number] {
    return [this.columns ?? 80, this.rows ?? 24];
  }
}

/** stdin, which is always at its end: keys reach an extension through pi's UI. */
class Input extends EventEmitter {
  declare readonly isTTY?: true;
  readonly fd = 0;
  readonly readable = false;
  isRaw = false;
  constructor() {
    super();
    if (isTerminal(0)) Object.assign(this, { isTTY: true });
  }
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
  if (previous !== undefined) {
    if (!Array.isArray(previous)) throw invalidArgType("time", "an instance of Array", previous);
    if (previous.length !== 2) throw outOfRange("time", "2", (previous as unknown[]).length);
  }
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

/** Typical values of a small program: the realm's limits bound memory, and the host reports them. */
const MEMORY = { rss: 64 << 20, heapTotal: 32 << 20, heapUsed: 16 << 20, external: 1 << 20, arrayBuffers: 0 };

/** Memory available to a realm, as reported to the extension. */
const MEMORY_LIMIT = 256 << 20;

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
  readonly features = { inspector: false, debug: false, uv: true, ipv6: true, tls_alpn: true, tls_sni: true, tls_ocsp: true, tls: true };
  readonly stdout = new Output(1);
  readonly stderr = new Output(2);
  readonly stdin = new Input();

  cwd(): string {
    return facts.cwd ?? "/";
  }
  readonly chdir = absent("process.chdir", "pass absolute paths, or cwd to exec");
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
  cpuUsage(previous?: object): { user: number; system: number } {
    if (previous !== undefined && (typeof previous !== "object" || previous === null)) throw invalidArgType("prevValue", "of type object", previous);
    return { user: 0, system: 0 };
  }
  threadCpuUsage(): { user: number; system: number } {
    return { user: 0, system: 0 };
  }
  resourceUsage(): Record<string, number> {
    const nothing = [
      "userCPUTime", "systemCPUTime", "maxRSS", "sharedMemorySize", "unsharedDataSize", "unsharedStackSize", "minorPageFault",
      "majorPageFault", "swappedOut", "fsRead", "fsWrite", "ipcSent", "ipcReceived", "signalsCount", "voluntaryContextSwitches",
      "involuntaryContextSwitches",
    ];
    return { ...Object.fromEntries(nothing.map((name) => [name, 0])), maxRSS: MEMORY.rss / 1024 };
  }
  availableMemory(): number {
    return MEMORY_LIMIT - MEMORY.heapUsed;
  }
  constrainedMemory(): number {
    return MEMORY_LIMIT;
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

  /** Ends the session and then pi, if the extension may; otherwise throws, since extensions do not own the process. */
  exit(code?: number | string | null): never {
    const number = Number(code ?? this.exitCode ?? 0);
    try {
      callSync("session", "session.control", { op: "shutdown", code: Number.isFinite(number) ? Math.trunc(number) & 0xff : 1 });
    } catch {
      throw coded(
        Error,
        "ERR_PROCESS_EXIT",
        `process.exit(${code ?? ""}) was called by an extension that may not end pi: it needs the capability session.control; to end a task, return`,
      );
    }
    if (!isExiting) {
      isExiting = true;
      this.emit("exit", number);
    }
    throw exiting;
  }
  reallyExit(code?: number | string | null): never {
    return this.exit(code);
  }
  abort(): never {
    throw coded(Error, "ERR_PROCESS_EXIT", "process.abort() was called by an extension: throw an error instead");
  }
  /**
   * Sends a signal to programs that the extension started, by process id or, if negative, by group, and to their descendants, by
   * process id. Other processes cannot be signalled, but existence (signal 0) is reported for every id: lock files name arbitrary
   * processes.
   */
  kill(pid: number, signal?: string | number): true {
    if (typeof pid !== "number" || pid !== (pid | 0)) throw invalidArgType("pid", "of type number", pid);
    const named = signal === 0 ? 0 : signalName(signal);
    // Zero is this program's own group.
    if (named === 0 && (pid === this.pid || pid === 0)) return true;
    const own = started.has(Math.abs(pid));
    const told = pid > 0 && !own ? callSync("exec", "exec", { op: "alive", pid }).output.error : null;
    if (named === 0 && pid > 0 && !own && told === null) return true;
    const perhaps = own || (pid > 0 && named !== 0 && told === null && started.size > 0);
    if (perhaps && callSync("exec", "exec", { op: "kill", pid: Math.abs(pid), signal: named, group: pid < 0 }).output.sent) return true;
    const code: "EPERM" | "ESRCH" = own ? "ESRCH" : (told ?? "EPERM");
    throw Object.assign(new Error(`kill ${code}`), { errno: -constants.errno[code]!, code, syscall: "kill" });
  }

  emitWarning(warning: string | Error, type?: string | WarningOptions | Function, code?: string): void {
    if (typeof warning !== "string" && !(warning instanceof Error)) throw invalidArgType("warning", "of type string or an instance of Error", warning);
    const options: WarningOptions = typeof type === "object" && type !== null ? type : typeof type === "string" ? { type, ...(code && { code }) } : {};
    const error = warning instanceof Error ? warning : new Error(String(warning));
    if (!(warning instanceof Error)) {
      Object.defineProperty(error, "name", { value: options.type ?? "Warning", writable: true, configurable: true });
      if (options.code) (error as any).code = options.code;
      if (options.detail) (error as any).detail = options.detail;
    }
    queueTick(() => {
      const shown = (error as any).code ? `[${(error as any).code}] ` : "";
      log("warn", "warning", `${shown}${error.name}: ${error.message}${options.detail ? `\n${options.detail}` : ""}`);
      this.emit("warning", error);
    });
  }

  readonly binding = absent("process.binding", "use the documented modules");
  readonly dlopen = absent("process.dlopen", "native addons are not loaded");
  readonly execve = absent("process.execve", "start a program with child_process");

  getBuiltinModule(id: string): any {
    checkString("id", id);
    const { isBuiltin } = importSync("node:module");
    if (!isBuiltin(id)) return undefined;
    return importSync(id.startsWith("node:") ? id : `node:${id}`).default;
  }

  /** Sets the variables in a file that are not set yet. */
  loadEnvFile(path: unknown = ".env"): void {
    const text: string = importSync("node:fs").readFileSync(path, "utf8");
    const values: Names = importSync("pi:node/util/env").parseEnv(text);
    for (const name of Object.keys(values)) if (env[name] === undefined) env[name] = values[name]!;
  }

  // The following members concern a separate process, and have no effect in a realm.
  readonly allowedNodeEnvironmentFlags = new Set<string>();
  readonly debugPort = 9229;
  readonly sourceMapsEnabled = false;
  readonly report = { directory: "", filename: "", compact: false, signal: "SIGUSR2", getReport: () => ({}), writeReport: () => "" };
  readonly finalization = { register(): void {}, registerBeforeExit(): void {}, unregister(): void {} };
  getActiveResourcesInfo(): string[] {
    return [];
  }
  hasUncaughtExceptionCaptureCallback(): boolean {
    return false;
  }
  setUncaughtExceptionCaptureCallback(): void {}
  setSourceMapsEnabled(): void {}
  ref(): void {}
  unref(): void {}

  get [Symbol.toStringTag](): string {
    return "process";
  }
}

const single = new Process();

listenWith((event, ...args) => single.emit(event, ...args));

export const process = single;
export default single;

const bound = <K extends keyof Process>(name: K): Process[K] => (single[name] as any).bind(single);
export const cwd = bound("cwd");
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
export const abort = bound("abort");
export const availableMemory = bound("availableMemory");
export const constrainedMemory = bound("constrainedMemory");
export const getBuiltinModule = bound("getBuiltinModule");
export const getActiveResourcesInfo = bound("getActiveResourcesInfo");
export const getegid = bound("getegid");
export const geteuid = bound("geteuid");
export const getgroups = bound("getgroups");
export const hasUncaughtExceptionCaptureCallback = bound("hasUncaughtExceptionCaptureCallback");
export const loadEnvFile = bound("loadEnvFile");
export const reallyExit = bound("reallyExit");
export const ref = bound("ref");
export const resourceUsage = bound("resourceUsage");
export const setSourceMapsEnabled = bound("setSourceMapsEnabled");
export const setUncaughtExceptionCaptureCallback = bound("setUncaughtExceptionCaptureCallback");
export const threadCpuUsage = bound("threadCpuUsage");
export const unref = bound("unref");
export const {
  allowedNodeEnvironmentFlags, arch, argv, argv0, binding, chdir, config, debugPort, dlopen, execArgv, execPath, execve, exitCode, features, finalization,
  hrtime, memoryUsage, pid, platform, ppid, release, report, sourceMapsEnabled, stderr, stdin, stdout, title, version, versions,
} = single;
