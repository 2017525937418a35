/**
 * `pi:web/pair_list`: an ordered list of names and values, for URLSearchParams and FormData. A lookup takes constant time.
 */

export class PairList<V> {
  /** Pairs in order; only the methods change the list. */
  pairs: [string, V][] = [];
  /** Positions of each name, built on the first lookup. */
  #places: Map<string, number[]> | undefined;

  append(name: string, value: V): void {
    this.#note(name, this.pairs.push([name, value]) - 1);
  }
  first(name: string): V | undefined {
    const at = this.#of(name)[0];
    return at === undefined ? undefined : this.pairs[at]![1];
  }
  all(name: string): V[] {
    return this.#of(name).map((at) => this.pairs[at]![1]);
  }
  has(name: string): boolean {
    return this.#of(name).length > 0;
  }
  /** Replaces the first pair of a name, and removes the others. */
  set(name: string, value: V): void {
    const [first, ...others] = this.#of(name);
    if (first === undefined) return this.append(name, value);
    this.pairs[first]![1] = value;
    if (others.length > 0) this.#keep((pair, at) => at <= first || pair[0] !== name);
  }
  delete(name: string, isMeant: (value: V) => boolean = () => true): void {
    if (this.has(name)) this.#keep((pair) => pair[0] !== name || !isMeant(pair[1]));
  }
  sort(): void {
    this.pairs.sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0));
    this.#places = undefined;
  }
  clear(): void {
    this.pairs = [];
    this.#places = undefined;
  }

  #of(name: string): number[] {
    if (!this.#places) {
      this.#places = new Map();
      this.pairs.forEach((pair, at) => this.#note(pair[0], at));
    }
    return this.#places.get(name) ?? [];
  }
  #note(name: string, at: number): void {
    const places = this.#places?.get(name);
    if (places) places.push(at);
    else this.#places?.set(name, [at]);
  }
  #keep(keeps: (pair: [string, V], at: number) => boolean): void {
    this.pairs = this.pairs.filter(keeps);
    this.#places = undefined;
  }
}
