/**
 * `pi:node/perf_hooks/histogram`: histograms that count values as Node's do, in buckets whose size grows with the value,
 * so that each has a fixed number of significant figures (Gil Tene's HDR histogram).
 *
 * The delay of the event loop is the time between two expirations of a timer, which includes its interval, as in Node.
 */

import { coded, invalidArgType, outOfRange } from "pi:node/errors";
import { performance } from "pi:web/performance";
import { SafeMap } from "pi:web/safe";
import { clearInterval, setInterval } from "pi:web/timers";

const LARGEST = Number.MAX_SAFE_INTEGER;
/** Minimum that Node reports for an empty histogram: the largest 64-bit value. */
const NOTHING = 2 ** 63;
const MINE = Symbol("made by this module");

function checkInteger(name: string, value: unknown, lowest: number, highest: number): number {
  if (typeof value !== "number") throw invalidArgType(name, "of type number", value);
  if (!Number.isInteger(value)) throw outOfRange(name, "an integer", value);
  if (value < lowest || value > highest) throw outOfRange(name, `>= ${lowest} && <= ${highest}`, value);
  return value;
}

class Buckets {
  readonly highest: number;
  /** Buckets below this one are of the size of one unit. */
  readonly #subBuckets: number;
  readonly #unit: number;
  /** Counts by the lowest value of the bucket. */
  #counts = new SafeMap<number, number>();
  count = 0;
  exceeds = 0;
  #min = NOTHING;
  #max = 0;

  constructor(lowest: number, highest: number, figures: number) {
    this.highest = highest;
    this.#unit = 2 ** Math.floor(Math.log2(lowest));
    this.#subBuckets = 2 ** Math.ceil(Math.log2(2 * 10 ** figures));
  }

  #sizeAt(value: number): number {
    let size = this.#unit;
    while (value >= size * this.#subBuckets) size *= 2;
    return size;
  }

  #lowestOf(value: number): number {
    const size = this.#sizeAt(value);
    return Math.floor(value / size) * size;
  }

  #highestOf(value: number): number {
    return this.#lowestOf(value) + this.#sizeAt(value) - 1;
  }

  #middleOf(value: number): number {
    return this.#lowestOf(value) + Math.floor(this.#sizeAt(value) / 2);
  }

  /** Records a value. Returns whether it is in range. */
  #put(value: number, times: number): boolean {
    // The range ends with the bucket that contains the highest value.
    let end = this.#unit * this.#subBuckets;
    while (end <= this.highest) end *= 2;
    if (value >= end) return false;
    const at = this.#lowestOf(value);
    this.#counts.set(at, (this.#counts.get(at) ?? 0) + times);
    if (value !== 0) this.#min = Math.min(this.#min, value);
    this.#max = Math.max(this.#max, value);
    return true;
  }

  record(value: number): void {
    if (this.#put(value, 1)) this.count++;
    else this.exceeds++;
  }

  add(other: Buckets): void {
    other.#counts.forEach((times, value) => void this.#put(value, times));
    this.count += other.count;
    this.exceeds += other.exceeds;
  }

  reset(): void {
    this.#counts = new SafeMap();
    this.count = this.exceeds = this.#max = 0;
    this.#min = NOTHING;
  }

  #sorted(): [value: number, times: number][] {
    const all: [number, number][] = [];
    this.#counts.forEach((times, value) => void all.push([value, times]));
    return all.sort(([a], [b]) => a - b);
  }

  get min(): number {
    return this.#counts.has(0) ? 0 : this.#min === NOTHING ? NOTHING : this.#lowestOf(this.#min);
  }
  get max(): number {
    return this.#max === 0 ? 0 : this.#highestOf(this.#max);
  }
  get mean(): number {
    let [sum, total] = [0, 0];
    for (const [value, times] of this.#sorted()) {
      sum += this.#middleOf(value) * times;
      total += times;
    }
    return sum / total;
  }
  get stddev(): number {
    const mean = this.mean;
    let [sum, total] = [0, 0];
    for (const [value, times] of this.#sorted()) {
      sum += (this.#middleOf(value) - mean) ** 2 * times;
      total += times;
    }
    return Math.sqrt(sum / total);
  }

  percentile(percentile: number): number {
    const all = this.#sorted();
    const total = all.reduce((sum, [, times]) => sum + times, 0);
    const wanted = Math.max(1, Math.floor((percentile / 100) * total + 0.5));
    let seen = 0;
    for (const [value, times] of all) if ((seen += times) >= wanted) return this.#highestOf(value);
    return 0;
  }

  /** Returns the values at percentiles that halve the remaining distance to 100: 0, 50, 75, and so on. */
  percentiles(): [percentile: number, value: number][] {
    const all = this.#sorted();
    const total = all.reduce((sum, [, times]) => sum + times, 0);
    const found: [number, number][] = [];
    let [seen, next, last] = [0, 0, 0];
    for (const [value, times] of all) {
      seen += times;
      last = value;
      while (next <= (100 * seen) / total) {
        found.push([next, value]);
        next += 100 / 2 ** (Math.trunc(Math.log(100 / (100 - next)) / Math.log(2)) + 1);
        if (seen === total) break;
      }
    }
    found.push([100, last]);
    return found;
  }
}

export class Histogram {
  #buckets: Buckets;

  constructor(mine?: symbol, buckets?: Buckets) {
    if (mine !== MINE) throw coded(TypeError, "ERR_ILLEGAL_CONSTRUCTOR", "Illegal constructor");
    this.#buckets = buckets!;
  }

  /** Gives the subclasses below access to the buckets. */
  static bucketsOf(histogram: Histogram): Buckets {
    return histogram.#buckets;
  }

  get count(): number {
    return this.#buckets.count;
  }
  get countBigInt(): bigint {
    return BigInt(this.#buckets.count);
  }
  get min(): number {
    return this.#buckets.min;
  }
  get minBigInt(): bigint {
    return this.#buckets.min === NOTHING ? 2n ** 63n - 1n : BigInt(this.#buckets.min);
  }
  get max(): number {
    return this.#buckets.max;
  }
  get maxBigInt(): bigint {
    return BigInt(this.#buckets.max);
  }
  get mean(): number {
    return this.#buckets.mean;
  }
  get exceeds(): number {
    return this.#buckets.exceeds;
  }
  get exceedsBigInt(): bigint {
    return BigInt(this.#buckets.exceeds);
  }
  get stddev(): number {
    return this.#buckets.stddev;
  }
  percentile(percentile: number): number {
    if (typeof percentile !== "number") throw invalidArgType("percentile", "of type number", percentile);
    if (!(percentile > 0 && percentile <= 100)) throw outOfRange("percentile", "> 0 && <= 100", percentile);
    return this.#buckets.percentile(percentile);
  }
  percentileBigInt(percentile: number): bigint {
    return BigInt(this.percentile(percentile));
  }
  get percentiles(): Map<number, number> {
    return new Map(this.#buckets.percentiles());
  }
  get percentilesBigInt(): Map<number, bigint> {
    return new Map(this.#buckets.percentiles().map(([percentile, value]) => [percentile, BigInt(value)]));
  }
  reset(): void {
    this.#buckets.reset();
  }
  toJSON(): object {
    const { count, min, max, mean, exceeds, stddev } = this;
    return { count, min, max, mean, exceeds, stddev, percentiles: Object.fromEntries(this.percentiles) };
  }
  [Symbol.for("nodejs.util.inspect.custom")](_depth: number, options: object, inspect: (value: unknown, options: object) => string): string {
    const { min, max, mean, exceeds, stddev, count, percentiles } = this;
    return `Histogram ${inspect({ min, max, mean, exceeds, stddev, count, percentiles }, options)}`;
  }
}

export class RecordableHistogram extends Histogram {
  #last: number | undefined;

  record(value: number | bigint): void {
    const whole = typeof value === "bigint" ? Number(value) : value;
    Histogram.bucketsOf(this).record(checkInteger("val", whole, 1, LARGEST));
  }
  /** Records the nanoseconds since the previous call. */
  recordDelta(): void {
    const now = performance.now();
    if (this.#last !== undefined) Histogram.bucketsOf(this).record(Math.max(1, Math.round((now - this.#last) * 1e6)));
    this.#last = now;
  }
  add(other: RecordableHistogram): void {
    if (!(other instanceof RecordableHistogram)) throw invalidArgType("other", "an instance of RecordableHistogram", other);
    Histogram.bucketsOf(this).add(Histogram.bucketsOf(other));
  }
}

class ELDHistogram extends Histogram {
  #timer: any;
  #resolution: number;

  constructor(mine: symbol, buckets: Buckets, resolution: number) {
    super(mine, buckets);
    this.#resolution = resolution;
  }

  enable(): boolean {
    if (this.#timer !== undefined) return false;
    let last = performance.now();
    this.#timer = setInterval(() => {
      const now = performance.now();
      Histogram.bucketsOf(this).record(Math.max(1, Math.round((now - last) * 1e6)));
      last = now;
    }, this.#resolution);
    this.#timer.unref();
    return true;
  }
  disable(): boolean {
    if (this.#timer === undefined) return false;
    clearInterval(this.#timer);
    this.#timer = undefined;
    return true;
  }
  [Symbol.dispose ?? Symbol.for("dispose")](): void {
    this.disable();
  }
}

/** Returns a histogram that its creator records into. */
export function createHistogram(options: { lowest?: number | bigint; highest?: number | bigint; figures?: number } = {}): RecordableHistogram {
  if (typeof options !== "object" || options === null) throw invalidArgType("options", "of type object", options);
  const { lowest = 1, highest = LARGEST, figures = 3 } = options;
  const least = checkInteger("options.lowest", typeof lowest === "bigint" ? Number(lowest) : lowest, 1, LARGEST);
  const most = checkInteger("options.highest", typeof highest === "bigint" ? Number(highest) : highest, 2 * least, LARGEST);
  return new RecordableHistogram(MINE, new Buckets(least, most, checkInteger("options.figures", figures, 1, 5)));
}

/** Returns a histogram of the delays of the event loop. */
export function monitorEventLoopDelay(options: { resolution?: number } = {}): ELDHistogram {
  if (typeof options !== "object" || options === null) throw invalidArgType("options", "of type object", options);
  const { resolution = 10 } = options;
  checkInteger("options.resolution", resolution, 1, LARGEST);
  return new ELDHistogram(MINE, new Buckets(1, 3_600_000_000_000, 3), resolution);
}
