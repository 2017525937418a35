/** `pi:node/util/mime`: `util.MIMEType` (MIME Sniffing standard, section 4). */

import { coded } from "pi:node/errors";

const NOT_TOKEN = /[^!#$%&'*+\-.^_`|~A-Za-z0-9]/;
const NOT_QUOTABLE = /[^\t\u0020-~\u0080-\u00ff]/;
const lower = (text: string): string => text.replace(/[A-Z]+/g, (letters) => letters.toLowerCase());

/** Checks that a part is a token; `where` names its container in errors. */
function checkToken(part: string, text: string, where: string, isThere: boolean = true): void {
  const bad = part.search(NOT_TOKEN);
  if (part === "" || bad !== -1 || !isThere) {
    throw coded(TypeError, "ERR_INVALID_MIME_SYNTAX", `The MIME syntax for a ${where} in "${text}" is invalid${bad === -1 ? "" : ` at ${bad}`}`);
  }
}

export class MIMEParams {
  #all = new Map<string, string>();

  delete(name: string): void {
    this.#all.delete(`${name}`);
  }
  get(name: string): string | null {
    return this.#all.get(`${name}`) ?? null;
  }
  has(name: string): boolean {
    return this.#all.has(`${name}`);
  }
  set(name: string, value: string): void {
    const [key, text] = [`${name}`, `${value}`];
    checkToken(key, key, "parameter name");
    const bad = text.search(NOT_QUOTABLE);
    if (bad !== -1) throw coded(TypeError, "ERR_INVALID_MIME_SYNTAX", `The MIME syntax for a parameter value in "${text}" is invalid at ${bad}`);
    this.#all.set(key, text);
  }
  *entries(): Generator<[string, string]> {
    yield* this.#all.entries();
  }
  *keys(): Generator<string> {
    yield* this.#all.keys();
  }
  *values(): Generator<string> {
    yield* this.#all.values();
  }
  toString(): string {
    const written = (value: string) => (value === "" || NOT_TOKEN.test(value) ? `"${value.replace(/["\\]/g, "\\$&")}"` : value);
    return Array.from(this.#all, ([name, value]) => `${name}=${written(value)}`).join(";");
  }
  toJSON(): string {
    return this.toString();
  }
  [Symbol.iterator](): Generator<[string, string]> {
    return this.entries();
  }

  /** Reads the parameters after the type. Malformed ones are skipped; of several with one name, the first counts. */
  static _read(text: string): MIMEParams {
    const params = new MIMEParams();
    let at = 0;
    while (at < text.length) {
      at += /^[\r\n\t ]*/.exec(text.slice(at))![0].length;
      const name = lower(/^[^;=]*/.exec(text.slice(at))![0]);
      at += name.length;
      if (text[at] !== "=") {
        at++;
        continue;
      }
      at++;
      let value: string;
      let isQuoted = false;
      if (text[at] === '"') {
        at++;
        value = "";
        isQuoted = true;
        while (at < text.length && text[at] !== '"') {
          // A trailing backslash is literal.
          if (text[at] === "\\" && at + 1 < text.length) at++;
          value += text[at++];
        }
        at += /^[^;]*/.exec(text.slice(at))![0].length;
      } else {
        const raw = /^[^;]*/.exec(text.slice(at))![0];
        at += raw.length;
        value = raw.replace(/[\r\n\t ]+$/, "");
      }
      at++;
      if ((value !== "" || isQuoted) && name !== "" && !NOT_TOKEN.test(name) && !NOT_QUOTABLE.test(value) && !params.#all.has(name)) params.#all.set(name, value);
    }
    return params;
  }
}

export class MIMEType {
  #type: string;
  #subtype: string;
  #params: MIMEParams;

  constructor(input: string) {
    const text = `${input}`;
    const start = text.search(/[^\r\n\t ]|$/);
    const slash = text.indexOf("/", start);
    const type = slash === -1 ? text.slice(start) : text.slice(start, slash);
    checkToken(type, text, "type", slash !== -1);
    const semicolon = text.indexOf(";", slash);
    const subtype = text.slice(slash + 1, semicolon === -1 ? undefined : semicolon).replace(/[\r\n\t ]+$/, "");
    checkToken(subtype, text, "subtype");
    this.#type = lower(type);
    this.#subtype = lower(subtype);
    this.#params = MIMEParams._read(semicolon === -1 ? "" : text.slice(semicolon + 1));
  }
  get type(): string {
    return this.#type;
  }
  set type(value: string) {
    checkToken(`${value}`, `${value}`, "type");
    this.#type = lower(`${value}`);
  }
  get subtype(): string {
    return this.#subtype;
  }
  set subtype(value: string) {
    checkToken(`${value}`, `${value}`, "subtype");
    this.#subtype = lower(`${value}`);
  }
  get essence(): string {
    return `${this.#type}/${this.#subtype}`;
  }
  get params(): MIMEParams {
    return this.#params;
  }
  toString(): string {
    const params = this.#params.toString();
    return params === "" ? this.essence : `${this.essence};${params}`;
  }
  toJSON(): string {
    return this.toString();
  }
}
