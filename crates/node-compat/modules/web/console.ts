/**
 * `pi:web/console`: console, whose lines become log messages.
 *
 * `util.format` formats lines; it is loaded when a line needs more than text. The host adds the extension's name; the method
 * determines the level.
 */

import { callSync, elapsedMs, epochMs, facts, importSync, send } from "pi:engine";

type Level = "debug" | "info" | "warn" | "error";

/** Writes one log record. process.stdout and process.stderr use it too. */
export function log(level: Level, event: string, message: string): void {
  if (facts.observesEvents === true) {
    // The call is synchronous, so that a recording driver keeps the order.
    callSync("log", "log", { level, event, message: message.toWellFormed() });
    return;
  }
  send({
    type: "log",
    payload: {
      schema: "pi.ext.log.v1",
      ts: new Date(epochMs()).toISOString(),
      level,
      event,
      message: message.toWellFormed(),
      correlation: { extension_id: "", scenario_id: "" },
      source: { component: "extension" },
    },
  });
}

function format(args: unknown[]): string {
  if (args.length === 1 && typeof args[0] === "string") return args[0];
  return args.length === 0 ? "" : importSync("pi:node/util/format").format(...args);
}

interface Sink {
  write(text: string): unknown;
}

interface ConsoleOptions {
  stdout: Sink;
  stderr?: Sink;
  groupIndentation?: number;
}

/** Writes to its streams. The global console has none and writes to the log. */
class Console {
  #indent = "";
  #step = "  ";
  #streams: { out: Sink; err: Sink } | undefined;
  #counts = new Map<string, number>();
  #timers = new Map<string, number>();

  constructor(out?: Sink | ConsoleOptions, err?: Sink) {
    if (out === undefined) return;
    const options: ConsoleOptions = typeof (out as Sink).write === "function" ? { stdout: out as Sink, ...(err && { stderr: err }) } : (out as ConsoleOptions);
    const { stdout, stderr = stdout, groupIndentation = 2 } = options;
    for (const [name, stream] of [["stdout", stdout], ["stderr", stderr]] as const) {
      if (typeof stream?.write === "function") continue;
      const error = new TypeError(`Console expects a writable stream instance for ${name}`);
      throw Object.assign(error, { code: "ERR_CONSOLE_WRITABLE_STREAM" });
    }
    this.#streams = { out: stdout, err: stderr };
    this.#step = " ".repeat(groupIndentation);
  }

  #write(level: Level, text: string): void {
    const shown = this.#indent === "" ? text : text.replace(/^/gm, this.#indent);
    if (this.#streams === undefined) return log(level, "console", shown);
    const stream = level === "warn" || level === "error" ? this.#streams.err : this.#streams.out;
    stream.write(`${shown}\n`);
  }

  log(...args: unknown[]): void {
    this.#write("info", format(args));
  }
  info(...args: unknown[]): void {
    this.#write("info", format(args));
  }
  debug(...args: unknown[]): void {
    this.#write("debug", format(args));
  }
  warn(...args: unknown[]): void {
    this.#write("warn", format(args));
  }
  error(...args: unknown[]): void {
    this.#write("error", format(args));
  }
  trace(...args: unknown[]): void {
    const stack = (new Error().stack ?? "").split("\n").slice(1).join("\n");
    this.#write("error", `Trace${args.length > 0 ? `: ${format(args)}` : ""}\n${stack}`);
  }
  assert(condition?: unknown, ...args: unknown[]): void {
    if (condition) return;
    if (typeof args[0] === "string") args[0] = `Assertion failed: ${args[0]}`;
    else args.unshift("Assertion failed");
    this.#write("warn", format(args));
  }
  dir(value: unknown, options?: object): void {
    this.#write("info", importSync("pi:node/util/inspect").inspect(value, { customInspect: false, ...options }));
  }
  dirxml(...args: unknown[]): void {
    this.log(...args);
  }
  group(...labels: unknown[]): void {
    if (labels.length > 0) this.log(...labels);
    this.#indent += this.#step;
  }
  groupCollapsed(...labels: unknown[]): void {
    this.group(...labels);
  }
  groupEnd(): void {
    this.#indent = this.#indent.slice(this.#step.length);
  }
  count(label: string = "default"): void {
    const count = (this.#counts.get(String(label)) ?? 0) + 1;
    this.#counts.set(String(label), count);
    this.#write("info", `${label}: ${count}`);
  }
  countReset(label: string = "default"): void {
    this.#counts.delete(String(label));
  }
  time(label: string = "default"): void {
    if (this.#timers.has(String(label))) this.#write("warn", `Warning: Label '${label}' already exists for console.time()`);
    else this.#timers.set(String(label), elapsedMs());
  }
  timeEnd(label: string = "default"): void {
    this.timeLog(label);
    this.#timers.delete(String(label));
  }
  timeLog(label: string = "default", ...args: unknown[]): void {
    const start = this.#timers.get(String(label));
    if (start === undefined) {
      this.#write("warn", `Warning: No such label '${label}' for console.timeLog()`);
      return;
    }
    const tail = args.length > 0 ? ` ${format(args)}` : "";
    this.#write("info", `${label}: ${(elapsedMs() - start).toFixed(3)}ms${tail}`);
  }
  table(rows: unknown, columns?: string[]): void {
    const table = typeof rows === "object" && rows !== null ? importSync("pi:node/util/table").table(rows, columns) : undefined;
    if (table === undefined) this.log(rows);
    else this.#write("info", table);
  }
  clear(): void {}
  timeStamp(): void {}
  profile(): void {}
  profileEnd(): void {}
}

const single = new Console();

/** The global console, whose methods can be called detached, as in Node. */
export const console: Console & { Console: typeof Console } = Object.create({}) as any;
for (const name of Object.getOwnPropertyNames(Console.prototype) as (keyof Console)[]) {
  if ((name as string) !== "constructor") (console as any)[name] = (single as any)[name].bind(single);
}
Object.defineProperty(console, "Console", { value: Console, writable: true, configurable: true });
Object.defineProperty(console, Symbol.toStringTag, { value: "console", configurable: true });
export { Console };
