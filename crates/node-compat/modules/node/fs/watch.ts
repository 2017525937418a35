/**
 * `pi:node/fs/watch`: changes to files, reported by the system (`watch`) or found by comparing stats (`watchFile`).
 */

import { HostcallError, call, callSync } from "pi:hostcall";
import type { Params } from "pi:hostcall";
import { abortError, checkFunction, invalidArgType } from "pi:node/errors";
import { fsError, systemError } from "pi:node/fs/error";
import * as requests from "pi:node/fs/requests";
import { run } from "pi:node/fs/requests";
import { statsFrom } from "pi:node/fs/stats";
import { Buffer } from "node:buffer";
import { EventEmitter } from "node:events";
import { AbortController } from "pi:web/abort";
import type { AbortSignal } from "pi:web/abort";
import { clearInterval, setInterval } from "pi:web/timers";
import { queueTick } from "pi:web/ticks";

interface WatchOptions {
  persistent?: boolean;
  recursive?: boolean;
  encoding?: string;
  signal?: AbortSignal;
}

type Listener = (event: string, name: any) => void;

/** Temporary files of the host's atomic writes, which events do not mention. */
const REPLACING = /(?:^|\/)\.pijs-[0-9A-Za-z]+\.tmp$/;

/** Watches until the signal fires, then settles; a failure settles too. `begun`: id of a watch that has started. */
async function events(path: string, options: WatchOptions, signal: AbortSignal, heard: Listener, begun?: number): Promise<void> {
  const params: Params<"fs"> = { op: "watch", path, ...(options.recursive && { recursive: true }), ...(begun !== undefined && { begun }) };
  const encoding = options.encoding ?? "utf8";
  const base = path.replace(/\/+$/, "").split("/").pop() ?? path;
  const onChunk = ({ output }: { output: any }) => {
    if (output.event === "overflow") heard("rename", null);
    else if (output.event) {
      const name = output.name === "" || output.name === undefined ? base : output.name;
      if (REPLACING.test(name)) return;
      heard(output.event, encoding === "buffer" ? Buffer.from(name) : name);
    } else if (output.gone) heard("rename", base);
  };
  try {
    await call("fs", "read", params, { signal, onChunk });
  } catch (failure) {
    if (signal.aborted) return;
    throw failure instanceof HostcallError ? fsError(failure, "watch", path) : failure;
  }
}

/** Starts watching. Later changes are reported, and a missing file throws, as with Node's `watch`. */
function begin(path: string, options: WatchOptions): number | undefined {
  try {
    return callSync("fs", "read", { op: "watch", path, ...(options.recursive && { recursive: true }) }).output.watch;
  } catch (failure) {
    // A system without watches reports an error when changes are awaited.
    if (!(failure instanceof HostcallError) || failure.code === "invalid_request") return undefined;
    const error: any = fsError(failure, "watch", path);
    const { code, cause } = error;
    if (typeof code !== "string" || code.startsWith("ERR_")) throw error;
    const { errno, message } = systemError(code, "watch", path) as any;
    const told = new Error(message, cause === undefined ? undefined : { cause });
    throw Object.assign(told, { errno, syscall: "watch", code, path, filename: path });
  }
}

export class FSWatcher extends EventEmitter {
  #abort = new AbortController();
  #closed = false;

  constructor(path: string, options: WatchOptions) {
    super();
    const begun = begin(path, options);
    const heard: Listener = (event, name) => {
      if (!this.#closed) this.emit("change", event, name);
    };
    events(path, options, this.#abort.signal, heard, begun).then(
      () => this.close(),
      (error) => {
        if (this.#closed) return;
        this.emit("error", error);
        this.close();
      },
    );
    if (options.signal?.aborted) queueTick(() => this.close());
    else options.signal?.addEventListener("abort", () => this.close(), { once: true });
  }

  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    this.#abort.abort();
    queueTick(() => this.emit("close"));
  }
  ref(): this {
    return this;
  }
  unref(): this {
    return this;
  }
  [Symbol.dispose ?? Symbol.for("dispose")](): void {
    this.close();
  }
}

export function watch(path: unknown, ...rest: any[]): FSWatcher {
  const listener: Listener | undefined = typeof rest.at(-1) === "function" ? rest.pop() : undefined;
  const options: WatchOptions = typeof rest[0] === "string" ? { encoding: rest[0] } : (rest[0] ?? {});
  if (typeof options !== "object") throw invalidArgType("options", "of type object", options);
  const file = requests.pathOf(path, "filename");
  const watcher = new FSWatcher(file, options);
  if (listener) watcher.on("change", listener);
  return watcher;
}

/** Returns the promise form: an async iterator that ends with the AbortError of the signal. */
export async function* watchPromise(path: unknown, options: WatchOptions | string = {}): AsyncGenerator<{ eventType: string; filename: any }> {
  const settings = typeof options === "string" ? { encoding: options } : (options ?? {});
  const file = requests.pathOf(path, "filename");
  const aborted = () => abortError(settings.signal!);
  if (settings.signal?.aborted) throw aborted();
  const begun = begin(file, settings);
  const controller = new AbortController();
  const ready: { eventType: string; filename: any }[] = [];
  let wake: () => void = () => {};
  let over: { error?: unknown } | undefined;
  const end = (error?: unknown) => {
    over ??= { error };
    wake();
  };
  const onAbort = () => end(aborted());
  settings.signal?.addEventListener("abort", onAbort, { once: true });
  events(file, settings, controller.signal, (eventType, filename) => {
    ready.push(Object.assign(Object.create(null), { eventType, filename }));
    wake();
  }, begun).then(() => end(), end);
  try {
    for (;;) {
      while (ready.length > 0) yield ready.shift()!;
      if (over) {
        if (over.error !== undefined) throw over.error;
        return;
      }
      await new Promise<void>((resolve) => {
        wake = resolve;
      });
    }
  } finally {
    controller.abort();
    settings.signal?.removeEventListener("abort", onAbort);
  }
}

// Comparing stats

const INTERVAL = 5007;
const watched = new Map<string, StatWatcher>();

const NOTHING = statsFrom({ kind: "file", dev: 0, ino: 0, mode: 0, nlink: 0, uid: 0, gid: 0, rdev: 0, size: 0, blksize: 0, blocks: 0, atimeMs: 0, mtimeMs: 0, ctimeMs: 0, birthtimeMs: 0 }) as any;
NOTHING.mode = 0;

/** Polls the stats of a file and emits changes. */
class StatWatcher extends EventEmitter {
  #path: string;
  #timer: any;
  #last: any;
  #asking = false;

  constructor(path: string, interval: number) {
    super();
    this.#path = path;
    void this.#ask();
    this.#timer = setInterval(() => void this.#ask(), interval);
  }

  async #ask(): Promise<void> {
    if (this.#asking) return;
    this.#asking = true;
    const now: any = await run(requests.stat("stat", this.#path)).catch(() => NOTHING);
    this.#asking = false;
    const before = this.#last;
    this.#last = now;
    if (before === undefined) {
      if (now === NOTHING) this.emit("change", now, now);
      return;
    }
    const same = ["mtimeMs", "ctimeMs", "size", "ino", "mode", "nlink", "dev"].every((member) => now[member] === before[member]);
    if (!same && this.#timer !== undefined) this.emit("change", now, before);
  }

  stop(): void {
    clearInterval(this.#timer);
    this.#timer = undefined;
    this.emit("stop");
  }
  ref(): this {
    return this;
  }
  unref(): this {
    return this;
  }
}

export function watchFile(path: unknown, options: any, listener?: any): StatWatcher {
  if (typeof options === "function") [listener, options] = [options, {}];
  checkFunction("listener", listener);
  const file = requests.pathOf(path, "filename");
  let watcher = watched.get(file);
  if (!watcher) {
    watcher = new StatWatcher(file, options?.interval ?? INTERVAL);
    watched.set(file, watcher);
  }
  watcher.on("change", listener);
  return watcher;
}

export function unwatchFile(path: unknown, listener?: any): void {
  const file = requests.pathOf(path, "filename");
  const watcher = watched.get(file);
  if (!watcher) return;
  if (typeof listener === "function") watcher.removeListener("change", listener);
  else watcher.removeAllListeners("change");
  if (watcher.listenerCount("change") > 0) return;
  watcher.stop();
  watched.delete(file);
}
