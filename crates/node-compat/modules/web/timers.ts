/**
 * `pi:web/timers`: setTimeout, setInterval, setImmediate and their objects.
 *
 * The realm keeps callbacks; the host's loop keeps deadlines. `timer_set` and `timer_clear`
 * messages arm and disarm timers; `timer_fired` arrives through `pi:hostcall` at `fireTimer`. Ids are
 * issued in the order of calls, which decides between equal deadlines. Delays follow Node: below 1 or
 * above 2^31-1 counts as 1; an immediate is a timer without delay, so it is due before every timeout
 * set in the same task.
 */

import { facts, importSync, send } from "pi:engine";
import { checkFunction } from "pi:node/errors";
import { HostcallError } from "pi:hostcall";
import { bind } from "pi:web/contexts";
import { SafeMap } from "pi:web/safe";

type Callback = (...args: any[]) => void;

const LONGEST_DELAY = 2 ** 31 - 1;

const armed = new SafeMap<number, Timer>();
let lastId = 0;

/** Returns the error about too many timers, which Node lacks: endless arming would exhaust the host's memory. */
function tooMany(most: number): HostcallError {
  return new HostcallError({
    code: "denied",
    message: `there are ${most} live timers, which is the limit; clear some first`,
    retryable: true,
    details: { reason: "quota", quota: "timers", limit: most },
  });
}

abstract class Timer {
  /** Id of the current arming; refreshing the timer changes it. */
  _id = 0;
  _callback: Callback;
  _args: unknown[];
  _referenced = true;

  constructor(callback: Callback, args: unknown[]) {
    checkFunction("callback", callback);
    this._callback = bind(callback);
    this._args = args;
  }

  abstract get _repeats(): boolean;

  _arm(delay: number): void {
    const most: number | undefined = facts.limits?.timers;
    if (most !== undefined && armed.size >= most) throw tooMany(most);
    this._id = ++lastId;
    armed.set(this._id, this);
    send({ type: "timer_set", payload: { timer: this._id, delay_ms: delay, repeat: this._repeats } });
  }

  _disarm(): void {
    if (armed.delete(this._id)) send({ type: "timer_clear", payload: { timer: this._id } });
  }

  ref(): this {
    this._referenced = true;
    return this;
  }

  unref(): this {
    this._referenced = false;
    return this;
  }

  hasRef(): boolean {
    return this._referenced;
  }

  [Symbol.dispose ?? Symbol.for("dispose")](): void {
    this._disarm();
  }
}

/** The result of setTimeout and setInterval. */
export class Timeout extends Timer {
  _delay: number;
  _repeat: boolean;

  constructor(callback: Callback, delay: unknown, args: unknown[], repeat: boolean) {
    super(callback, args);
    const ms = Number(delay);
    this._delay = ms >= 1 && ms <= LONGEST_DELAY ? Math.trunc(ms) : 1;
    this._repeat = repeat;
    this._arm(this._delay);
  }

  override get _repeats(): boolean {
    return this._repeat;
  }

  /** Restarts the delay, even if the timer has fired. */
  refresh(): this {
    this._disarm();
    this._arm(this._delay);
    return this;
  }

  close(): this {
    this._disarm();
    return this;
  }

  [Symbol.toPrimitive](): number {
    return this._id;
  }
}

/** The result of setImmediate. */
export class Immediate extends Timer {
  constructor(callback: Callback, args: unknown[]) {
    super(callback, args);
    this._arm(0);
  }

  override get _repeats(): boolean {
    return false;
  }
}

export function setTimeout(callback: Callback, delay?: number, ...args: unknown[]): Timeout {
  return new Timeout(callback, delay, args, false);
}

export function setInterval(callback: Callback, delay?: number, ...args: unknown[]): Timeout {
  return new Timeout(callback, delay, args, true);
}

export function setImmediate(callback: Callback, ...args: unknown[]): Immediate {
  return new Immediate(callback, args);
}

// `util.promisify(setTimeout)` returns the form of `node:timers/promises`, which loads on first use.
for (const [timer, name] of [[setTimeout, "setTimeout"], [setImmediate, "setImmediate"]] as const) {
  Object.defineProperty(timer, Symbol.for("nodejs.util.promisify.custom"), {
    get: () => importSync("node:timers/promises")[name],
    enumerable: true,
    configurable: true,
  });
}

/** Clears a timer, given as the object or as the number or string that it converts to. Other values are ignored. */
export function clearTimeout(timer?: unknown): void {
  if (timer instanceof Timer) timer._disarm();
  else if (typeof timer === "number" || typeof timer === "string") armed.get(Number(timer))?._disarm();
}

export const clearInterval = clearTimeout;

export function clearImmediate(timer?: unknown): void {
  if (timer instanceof Immediate) timer._disarm();
}

/** Runs a due timer, unless it was cleared after it became due. */
export function fireTimer(id: number): void {
  const timer = armed.get(id);
  if (!timer) return;
  if (!timer._repeats) armed.delete(id);
  timer._callback.apply(timer, timer._args);
}
