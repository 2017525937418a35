/** `pi:web/headers`: the header list of fetch. Names are lower case, iteration is sorted, Set-Cookie stays apart. */

type Init = Headers | Iterable<[string, string]> | Record<string, string> | undefined | null;

const TOKEN = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/;

function nameOf(name: unknown, method: string): string {
  const text = String(name);
  if (!TOKEN.test(text)) throw new TypeError(`Headers.${method}: "${text}" is an invalid header name.`);
  return text.toLowerCase();
}

function valueOf(value: unknown, method: string): string {
  const text = String(value).replace(/^[\t\n\r ]+|[\t\n\r ]+$/g, "");
  if (/[\0\r\n]|[^\0-\xff]/.test(text)) throw new TypeError(`Headers.${method}: "${text}" is an invalid header value.`);
  return text;
}

export class Headers {
  #list: [string, string][] = [];

  constructor(init?: Init) {
    if (init === undefined || init === null) return;
    if (typeof init !== "object") throw new TypeError("Headers: the init argument must be an object or a sequence of pairs.");
    const pairs = typeof (init as any)[Symbol.iterator] === "function" ? [...(init as Iterable<[string, string]>)] : Object.entries(init);
    for (const pair of pairs) {
      if (pair.length !== 2) throw new TypeError("Headers: each pair must have a name and a value.");
      this.append(pair[0], pair[1]);
    }
  }

  append(name: string, value: string): void {
    this.#list.push([nameOf(name, "append"), valueOf(value, "append")]);
  }
  delete(name: string): void {
    const key = nameOf(name, "delete");
    this.#list = this.#list.filter((entry) => entry[0] !== key);
  }
  get(name: string): string | null {
    const key = nameOf(name, "get");
    const values = this.#list.filter((entry) => entry[0] === key).map((entry) => entry[1]);
    return values.length > 0 ? values.join(", ") : null;
  }
  getSetCookie(): string[] {
    return this.#list.filter((entry) => entry[0] === "set-cookie").map((entry) => entry[1]);
  }
  has(name: string): boolean {
    const key = nameOf(name, "has");
    return this.#list.some((entry) => entry[0] === key);
  }
  set(name: string, value: string): void {
    const key = nameOf(name, "set");
    const at = this.#list.findIndex((entry) => entry[0] === key);
    const entry: [string, string] = [key, valueOf(value, "set")];
    if (at < 0) this.#list.push(entry);
    else {
      this.#list[at] = entry;
      this.#list = this.#list.filter((other, index) => index <= at || other[0] !== key);
    }
  }
  forEach(callback: (value: string, name: string, headers: Headers) => void, self?: unknown): void {
    for (const [name, value] of this) callback.call(self, value, name, this);
  }

  *entries(): IterableIterator<[string, string]> {
    const names = [...new Set(this.#list.map((entry) => entry[0]))].sort();
    for (const name of names) {
      if (name === "set-cookie") for (const cookie of this.getSetCookie()) yield [name, cookie];
      else yield [name, this.get(name)!];
    }
  }
  *keys(): IterableIterator<string> {
    for (const [name] of this.entries()) yield name;
  }
  *values(): IterableIterator<string> {
    for (const [, value] of this.entries()) yield value;
  }
  [Symbol.iterator](): IterableIterator<[string, string]> {
    return this.entries();
  }
  get [Symbol.toStringTag](): string {
    return "Headers";
  }
  [Symbol.for("nodejs.util.inspect.custom")](_depth: number, options: object, inspect: (value: unknown, options?: object) => string): string {
    return `Headers ${inspect(Object.fromEntries(this), options)}`;
  }
}
