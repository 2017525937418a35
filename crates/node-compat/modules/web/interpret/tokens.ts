/**
 * `pi:web/interpret/tokens`: source text to tokens.
 *
 * All tokens are made at once, each bracket with the place of its partner: whether `(` opens the parameters of an arrow
 * function is then one look.
 */

export type Kind = "name" | "keyword" | "mark" | "value" | "regex" | "template" | "end";

export interface Token {
  readonly kind: Kind;
  /** The name, the keyword or the mark; for other kinds the source. */
  readonly text: string;
  readonly start: number;
  readonly end: number;
  /** A line ends before it. */
  readonly fresh: boolean;
  /** Of a literal. */
  readonly value?: unknown;
  /** Of a template: the texts, and the tokens of what stands between them. */
  readonly pieces?: { readonly cooked: string[]; readonly inside: Token[][] };
  /** Of a bracket: where its partner is among the tokens. */
  partner?: number;
}

const KEYWORDS = new Set([
  "await", "break", "case", "catch", "class", "const", "continue", "debugger", "default", "delete", "do", "else", "export", "extends", "false",
  "finally", "for", "function", "if", "import", "in", "instanceof", "new", "null", "return", "super", "switch", "this", "throw", "true", "try",
  "typeof", "var", "void", "while", "with", "yield",
]);
/** By their first character, the longest first. */
const MARKS: Record<string, string[]> = {};
for (const mark of [
  ">>>=", "...", "===", "!==", "**=", "<<=", ">>=", ">>>", "&&=", "||=", "??=", "=>", "==", "!=", "<=", ">=", "&&", "||", "??", "?.", "++", "--",
  "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<", ">>", "**", "{", "}", "(", ")", "[", "]", ";", ",", "<", ">", "+", "-", "*", "/", "%",
  "&", "|", "^", "!", "~", "?", ":", "=", ".",
]) {
  (MARKS[mark[0]!] ??= []).push(mark);
}
const CLOSES: Record<string, string> = { ")": "(", "]": "[", "}": "{" };
const QUOTES: Record<string, true> = { '"': true, "'": true, "`": true };
/** After these a statement or an operand begins, so `/` opens an expression. */
const OPERAND_FOLLOWS = new Set(["case", "delete", "do", "else", "in", "instanceof", "new", "return", "throw", "typeof", "void", "await", "yield"]);
/** Their parenthesis is no operand. */
const HEADS = new Set(["if", "while", "for", "with"]);
const ESCAPES: Record<string, string> = { n: "\n", t: "\t", r: "\r", b: "\b", f: "\f", v: "\v", 0: "\0" };

const SPACE = /(?:[\s\uFEFF]|\/\/[^\n\r\u2028\u2029]*|\/\*[^]*?\*\/)+/y;
/** Nearly all names; where one goes on otherwise, the other expression reads it. */
const PLAIN_NAME = /[A-Za-z$_][\w$]*/y;
const NAME = /[\p{ID_Start}$_][\p{ID_Continue}$\u200c\u200d]*/uy;
const NUMBER = /(?:0[xX][\da-fA-F_]+|0[oO][0-7_]+|0[bB][01_]+|(?:\d[\d_]*\.?[\d_]*|\.\d[\d_]*)(?:[eE][+-]?\d+)?)n?/y;
const STRING = /"(?:[^"\\\n\r]|\\[^])*"|'(?:[^'\\\n\r]|\\[^])*'/y;
const REGEX = /\/((?:[^/\\[\n\r]|\\.|\[(?:[^\]\\\n\r]|\\.)*\])+)\/([a-z]*)/y;
const LINE_END = /[\n\r\u2028\u2029]/;
const ESCAPE = /\\(?:u\{([\da-fA-F]+)\}|u([\da-fA-F]{4})|x([\da-fA-F]{2})|(\r\n|[^]))/g;

export function failed(message: string): never {
  throw new SyntaxError(message);
}

function unescaped(text: string): string {
  if (!text.includes("\\")) return text;
  return text.replace(ESCAPE, (_, long, four, two, one) => {
    const digits = long ?? four ?? two;
    if (digits !== undefined) return String.fromCodePoint(parseInt(digits, 16));
    return LINE_END.test(one) ? "" : (ESCAPES[one] ?? one);
  });
}

function number(text: string): unknown {
  const plain = text.replaceAll("_", "");
  return plain.endsWith("n") ? BigInt(plain.slice(0, -1)) : Number(plain);
}

class Tokens {
  readonly source: string;
  readonly found: Token[] = [];
  readonly #open: number[] = [];
  /** Of each open bracket: what it encloses is an operand, so `/` behind it divides. */
  readonly #operands: boolean[] = [];
  #closed = false;
  #fresh = false;
  at: number;

  constructor(source: string, at: number) {
    this.source = source;
    this.at = at;
  }

  /** Reads until the text ends, or to the `}` that closes what stands in a template. */
  read(inTemplate: boolean): Token[] {
    for (;;) {
      this.#skip();
      if (this.at >= this.source.length) {
        if (this.#open.length > 0 || inTemplate) failed("Unexpected end of input");
        this.#push("end", "", this.at);
        return this.found;
      }
      if (inTemplate && this.#open.length === 0 && this.source[this.at] === "}") {
        this.#push("end", "", this.at);
        return this.found;
      }
      this.#next();
    }
  }

  #skip(): void {
    const code = this.source.charCodeAt(this.at);
    if (code > 32 && code < 127 && code !== 47) return;
    SPACE.lastIndex = this.at;
    const space = SPACE.exec(this.source);
    if (space === null) return;
    this.at = SPACE.lastIndex;
    this.#fresh ||= LINE_END.test(space[0]);
  }

  #next(): void {
    const first = this.source[this.at]!;
    const name = this.#name(first);
    if (name !== undefined) {
      // `a.in` is a member.
      const member = this.#last()?.text === "." || this.#last()?.text === "?.";
      this.#push(!member && KEYWORDS.has(name) ? "keyword" : "name", name, this.at + name.length);
    } else if ((first >= "0" && first <= "9") || (first === "." && /\d/.test(this.source[this.at + 1] ?? ""))) {
      const text = this.#match(NUMBER)!;
      this.#push("value", text, this.at + text.length, { value: number(text) });
    } else if (first === '"' || first === "'") {
      const text = this.#match(STRING) ?? failed("Invalid or unexpected token");
      this.#push("value", text, this.at + text.length, { value: unescaped(text.slice(1, -1)) });
    } else if (first === "`") {
      this.#template();
    } else if (first === "/" && this.#operandFollows()) {
      const text = this.#match(REGEX) ?? failed("Invalid regular expression: missing /");
      this.#push("regex", text, this.at + text.length);
    } else {
      this.#mark();
    }
  }

  #name(first: string): string | undefined {
    if (first in MARKS || first in QUOTES) return undefined;
    const name = this.#match(PLAIN_NAME);
    const next = this.source.charCodeAt(this.at + (name?.length ?? 0));
    return next > 126 ? this.#match(NAME) : name;
  }

  #mark(): void {
    let mark = MARKS[this.source[this.at]!]?.find((mark) => this.source.startsWith(mark, this.at)) ?? failed("Invalid or unexpected token");
    // `a ?.5 : b`
    if (mark === "?." && /\d/.test(this.source[this.at + 2] ?? "")) mark = "?";
    if (mark === "(" || mark === "[" || mark === "{") {
      this.#operands.push(mark === "{" ? this.#operandFollows() && !this.#statementFollows() : !HEADS.has(this.#last()?.text ?? ""));
      this.#open.push(this.found.length);
    } else if (mark in CLOSES) {
      const open = this.#open.pop();
      if (open === undefined || this.found[open]!.text !== CLOSES[mark]) failed(`Unexpected token '${mark}'`);
      this.#closed = this.#operands.pop()!;
      this.found[open]!.partner = this.found.length;
      this.#push("mark", mark, this.at + 1, { partner: open });
      return;
    }
    this.#push("mark", mark, this.at + mark.length);
  }

  #template(): void {
    const start = this.at;
    const cooked: string[] = [];
    const inside: Token[][] = [];
    let text = this.at + 1;
    for (let at = text; ; ) {
      const here = this.source[at] ?? failed("Unterminated template literal");
      if (here === "\\") at += 2;
      else if (here === "`") {
        cooked.push(unescaped(this.source.slice(text, at)));
        this.at = start;
        this.#push("template", this.source.slice(start, at + 1), at + 1, { pieces: { cooked, inside } });
        return;
      } else if (here === "$" && this.source[at + 1] === "{") {
        cooked.push(unescaped(this.source.slice(text, at)));
        const nested = new Tokens(this.source, at + 2);
        inside.push(nested.read(true));
        text = at = nested.at + 1;
      } else at++;
    }
  }

  #match(what: RegExp): string | undefined {
    what.lastIndex = this.at;
    return what.exec(this.source)?.[0];
  }

  #last(): Token | undefined {
    return this.found[this.found.length - 1];
  }

  /** Whether an operand, and no operator, stands next. */
  #operandFollows(): boolean {
    const last = this.#last();
    if (last === undefined) return true;
    if (last.kind === "keyword") return OPERAND_FOLLOWS.has(last.text);
    if (last.kind !== "mark") return false;
    if (last.text in CLOSES) return !this.#closed;
    return last.text !== "++" && last.text !== "--";
  }

  /** Whether `{` opens a block, and no object. */
  #statementFollows(): boolean {
    const last = this.#last();
    return last === undefined || [";", "{", "}", ")", "=>", "else", "do", "try", "finally"].includes(last.text);
  }

  #push(kind: Kind, text: string, end: number, more: Partial<Token> = {}): void {
    this.found.push({ kind, text, start: this.at, end, fresh: this.#fresh, ...more });
    this.#fresh = false;
    this.at = end;
  }
}

export function tokens(source: string): Token[] {
  return new Tokens(source, 0).read(false);
}
