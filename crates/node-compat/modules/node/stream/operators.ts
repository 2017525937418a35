/** `pi:node/stream/operators`: the array-like methods of Readable, such as map, filter and toArray. */

import { checkFunction, coded, invalidArgType, outOfRange } from "pi:node/errors";
import { define } from "pi:node/stream/legacy";
import { Readable } from "pi:node/stream/readable";
import { abortError } from "pi:node/stream/state";
import { AbortController, AbortSignal } from "pi:web/abort";

interface Options {
  concurrency?: number;
  highWaterMark?: number;
  signal?: AbortSignal;
}

type Call = (value: any, options: { signal: AbortSignal }) => any;

function checked(options: Options | undefined): Options {
  if (options !== undefined && options !== null && typeof options !== "object") throw invalidArgType("options", "of type object", options);
  const { concurrency } = options ?? {};
  if (concurrency !== undefined && !(Math.floor(concurrency) >= 1)) throw outOfRange("concurrency", ">= 1", concurrency);
  return options ?? {};
}

function count(value: unknown): number {
  const number = Number(value);
  if (Number.isNaN(number)) return 0;
  if (number < 0) throw outOfRange("number", ">= 0", number);
  return number;
}

/** Calls a function with at most `concurrency` pending results. Results keep the order of the source. */
async function* mapped(source: any, call: Call, options: Options, drop: (value: any) => boolean): AsyncGenerator<any> {
  const concurrency = Math.floor(options.concurrency ?? 1);
  const controller = new AbortController();
  const signal = AbortSignal.any([...(options.signal ? [options.signal] : []), controller.signal]);
  const open: Promise<any>[] = [];
  const iterator = source[Symbol.asyncIterator]();
  let ended = false;
  try {
    for (;;) {
      while (!ended && open.length < concurrency) {
        if (signal.aborted) throw abortError(signal.reason);
        const { value, done } = await iterator.next();
        if (done) {
          ended = true;
          break;
        }
        const answer = Promise.resolve((async () => call(value, { signal }))());
        answer.catch(() => {});
        open.push(answer);
      }
      if (open.length === 0) return;
      const value = await open.shift();
      if (signal.aborted) throw abortError(signal.reason);
      if (!drop(value)) yield value;
    }
  } finally {
    controller.abort();
    await iterator.return?.();
  }
}

const NOTHING = Symbol("filtered out");

function from(stream: any, iterable: AsyncIterable<any>): any {
  return Readable.from(iterable, { objectMode: true, highWaterMark: stream.readableHighWaterMark });
}

async function* guarded(stream: any, options: Options): AsyncGenerator<any> {
  const { signal } = options;
  if (signal?.aborted) throw abortError(signal.reason);
  for await (const value of stream) {
    if (signal?.aborted) throw abortError(signal.reason);
    yield value;
  }
}

define(Readable.prototype, {
  map(this: any, call: Call, options?: Options): any {
    checkFunction("fn", call);
    return from(this, mapped(this, call, checked(options), (value) => value === NOTHING));
  },
  filter(this: any, call: Call, options?: Options): any {
    checkFunction("fn", call);
    const keep: Call = async (value, extra) => ((await call(value, extra)) ? value : NOTHING);
    return from(this, mapped(this, keep, checked(options), (value) => value === NOTHING));
  },
  flatMap(this: any, call: Call, options?: Options): any {
    checkFunction("fn", call);
    const values = mapped(this, call, checked(options), () => false);
    return from(this, (async function* () {
      for await (const value of values) yield* value;
    })());
  },
  async forEach(this: any, call: Call, options?: Options): Promise<void> {
    checkFunction("fn", call);
    for await (const _ of mapped(this, async (value, extra) => void (await call(value, extra)), checked(options), () => true));
  },
  async toArray(this: any, options?: Options): Promise<any[]> {
    const all: any[] = [];
    for await (const value of guarded(this, checked(options))) all.push(value);
    return all;
  },
  async some(this: any, call: Call, options?: Options): Promise<boolean> {
    checkFunction("fn", call);
    for await (const _ of this.filter(call, options)) return true;
    return false;
  },
  async every(this: any, call: Call, options?: Options): Promise<boolean> {
    checkFunction("fn", call);
    return !(await this.some(async (value: any, extra: any) => !(await call(value, extra)), options));
  },
  async find(this: any, call: Call, options?: Options): Promise<any> {
    checkFunction("fn", call);
    for await (const value of this.filter(call, options)) return value;
    return undefined;
  },
  async reduce(this: any, call: (sum: any, value: any, options: object) => any, ...rest: any[]): Promise<any> {
    checkFunction("reducer", call);
    const options = checked(rest[1]);
    let has = rest.length > 0;
    let sum = rest[0];
    const controller = new AbortController();
    for await (const value of guarded(this, options)) {
      if (has) sum = await call(sum, value, { signal: controller.signal });
      else [has, sum] = [true, value];
    }
    if (!has) throw coded(TypeError, "ERR_INVALID_ARGS", "Reduce of an empty stream requires an initial value");
    return sum;
  },
  drop(this: any, number: number, options?: Options): any {
    checked(options);
    let left = count(number);
    const source = guarded(this, options ?? {});
    return from(this, (async function* () {
      for await (const value of source) if (left-- <= 0) yield value;
    })());
  },
  take(this: any, number: number, options?: Options): any {
    checked(options);
    let left = count(number);
    const source = guarded(this, options ?? {});
    return from(this, (async function* () {
      if (left <= 0) return;
      for await (const value of source) {
        yield value;
        if (--left <= 0) return;
      }
    })());
  },
});
