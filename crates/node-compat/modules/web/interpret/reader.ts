/**
 * `pi:web/interpret/reader`: expressions to nodes.
 *
 * Code that a program writes nests as no person would: 200 values of an enumeration in 200 parentheses. The engine's own
 * stack is short, so operators and parentheses are read with a stack of our own; only what opens a new list (arguments,
 * arrays, objects, functions) calls itself.
 */

import type { FunctionNode, Member, Node } from "pi:web/interpret/nodes";
import { failed, type Token } from "pi:web/interpret/tokens";

const BINARY: Record<string, number> = {
  "??": 4, "||": 5, "&&": 6, "|": 7, "^": 8, "&": 9, "==": 10, "!=": 10, "===": 10, "!==": 10, "<": 11, ">": 11, "<=": 11, ">=": 11,
  instanceof: 11, in: 11, "<<": 12, ">>": 12, ">>>": 12, "+": 13, "-": 13, "*": 14, "/": 14, "%": 14, "**": 15,
};
const COMMA = 1;
const ASSIGN = 2;
const CHOOSE = 3;
const PREFIX = 16;
const PREFIXES = new Set(["!", "~", "+", "-", "typeof", "void", "delete", "++", "--", "await"]);
const ASSIGNS = new Set(["=", "+=", "-=", "*=", "/=", "%=", "**=", "<<=", ">>=", ">>>=", "&=", "|=", "^=", "&&=", "||=", "??="]);

/** What waits for its right operand. */
interface Open {
  level: number;
  op: string;
  /** Of `a ? b : c`, which has two on the left. */
  test?: Node;
}

/** Reads functions for the expressions that have them. */
export interface Functions {
  arrow(reader: Reader, start: Token, waits: boolean): FunctionNode;
  written(reader: Reader, name: string, kind: "function" | "method", waits: boolean, start: Token): FunctionNode;
}

export class Reader {
  tokens: Token[];
  at = 0;
  readonly #functions: Functions;

  constructor(tokens: Token[], functions: Functions) {
    this.tokens = tokens;
    this.#functions = functions;
  }

  get next(): Token {
    return this.tokens[this.at]!;
  }

  peek(distance = 1): Token | undefined {
    return this.tokens[this.at + distance];
  }

  is(text: string): boolean {
    return is(this.next, text);
  }

  /** Whether it stands next; if so it is taken. */
  takes(text: string): boolean {
    const found = this.is(text);
    if (found) this.at++;
    return found;
  }

  expect(text: string): Token {
    if (!this.is(text)) this.unexpected();
    return this.tokens[this.at++]!;
  }

  name(): string {
    if (this.next.kind !== "name") this.unexpected();
    return this.tokens[this.at++]!.text;
  }

  unexpected(token: Token = this.next): never {
    if (token.kind === "end") failed("Unexpected end of input");
    if (token.kind === "name") failed(`Unexpected identifier '${token.text}'`);
    if (token.kind === "value") failed(typeof token.value === "string" ? "Unexpected string" : "Unexpected number");
    failed(`Unexpected token '${token.text}'`);
  }

  /** An expression; `commas` if `,` goes on with it, `noIn` in the head of `for`. */
  expression(commas = true, noIn = false): Node {
    const operands: Node[] = [];
    const open: Open[] = [];
    let parentheses = 0;

    const reduce = (level: number): void => {
      for (;;) {
        const top = open[open.length - 1];
        if (top === undefined || top.level < level || top.op === "(" || top.op === "?") return;
        open.pop();
        operands.push(joined(top, operands));
      }
    };

    for (;;) {
      // An operand: what stands before it first.
      const token = this.next;
      if (token.kind !== "name" && PREFIXES.has(token.text) && (token.kind === "mark" || token.kind === "keyword")) {
        this.at++;
        open.push({ level: PREFIX, op: `prefix ${token.text}` });
        continue;
      }
      if (this.is("(") && !this.#arrowFollows(this.at)) {
        this.at++;
        parentheses++;
        open.push({ level: 0, op: "(" });
        continue;
      }
      const arrow = this.#arrow();
      operands.push(arrow ?? this.#tail(this.#operand()));

      // Operators, until one wants another operand.
      for (;;) {
        const { kind, text } = this.next;
        const operator = kind === "mark" || kind === "keyword";
        if (operator && (text === "++" || text === "--") && !this.next.fresh) {
          this.at++;
          operands.push({ t: "update", op: text, prefix: false, target: target(operands.pop()!) });
          continue;
        }
        if (text === ")" && operator && parentheses > 0) {
          reduce(COMMA);
          if (open.pop()?.op !== "(") this.unexpected();
          this.at++;
          parentheses--;
          operands.push(this.#tail(operands.pop()!));
          continue;
        }
        const level = operator && !(noIn && text === "in" && parentheses === 0) ? BINARY[text] : undefined;
        if (level !== undefined) {
          reduce(text === "**" ? level + 1 : level);
          open.push({ level, op: text });
        } else if (operator && ASSIGNS.has(text)) {
          reduce(ASSIGN + 1);
          const left = operands.pop()!;
          operands.push(text === "=" ? pattern(left) : target(left));
          open.push({ level: ASSIGN, op: text });
        } else if (operator && text === "?") {
          reduce(CHOOSE + 1);
          open.push({ level: CHOOSE, op: "?", test: operands.pop()! });
        } else if (operator && text === ":" && this.#choosing(open)) {
          reduce(ASSIGN);
          const choice = open.pop()!;
          open.push({ level: ASSIGN, op: ":", test: choice.test! });
        } else if (operator && text === "," && (commas || parentheses > 0)) {
          reduce(COMMA);
          open.push({ level: COMMA, op: "," });
        } else {
          reduce(0);
          if (open.length > 0 || operands.length !== 1) this.unexpected();
          return operands[0]!;
        }
        this.at++;
        break;
      }
    }
  }

  /** Whether a `?` waits for the `:` that stands next. */
  #choosing(open: Open[]): boolean {
    for (let at = open.length - 1; at >= 0 && open[at]!.op !== "("; at--) if (open[at]!.op === "?") return true;
    return false;
  }

  #arrowFollows(at: number): boolean {
    const close = this.tokens[at]!.partner;
    return close !== undefined && is(this.tokens[close + 1]!, "=>");
  }

  #arrow(): Node | undefined {
    const start = this.next;
    const waits = start.kind === "name" && start.text === "async" && !this.peek()!.fresh;
    const first = waits ? this.peek()! : start;
    const named = first.kind === "name" && is(this.tokens[this.at + (waits ? 2 : 1)]!, "=>");
    if (!named && !(is(first, "(") && this.#arrowFollows(this.at + (waits ? 1 : 0)))) return undefined;
    if (waits) this.at++;
    return { t: "function", made: this.#functions.arrow(this, start, waits) };
  }

  #operand(): Node {
    const token = this.next;
    this.at++;
    switch (token.kind) {
      case "name":
        if (token.text === "async" && this.is("function") && !this.next.fresh) {
          this.at++;
          return this.#function(true, token);
        }
        return { t: "name", name: token.text, at: token.start };
      case "value":
        return { t: "value", value: token.value };
      case "regex": {
        const end = token.text.lastIndexOf("/");
        return { t: "regex", source: token.text.slice(1, end), flags: token.text.slice(end + 1) };
      }
      case "template":
        return { t: "template", texts: token.pieces!.cooked, parts: token.pieces!.inside.map((inside) => this.#inside(inside)) };
      case "keyword":
        switch (token.text) {
          case "this": return { t: "this" };
          case "null": return { t: "value", value: null };
          case "true": return { t: "value", value: true };
          case "false": return { t: "value", value: false };
          case "function": return this.#function(false, token);
          case "new": return this.#new();
        }
        break;
      case "mark":
        if (token.text === "[") return this.#array();
        if (token.text === "{") return this.#object();
    }
    if (["class", "super", "import", "yield"].includes(token.text)) failed(`'${token.text}' is not understood in code that is interpreted`);
    this.unexpected(token);
  }

  /** What stands in a template. */
  #inside(tokens: Token[]): Node {
    const kept = [this.tokens, this.at] as const;
    this.tokens = tokens;
    this.at = 0;
    const node = this.expression();
    if (this.next.kind !== "end") this.unexpected();
    [this.tokens, this.at] = kept;
    return node;
  }

  #function(waits: boolean, start: Token): Node {
    if (this.is("*")) failed("a generator is not understood in code that is interpreted");
    const name = this.next.kind === "name" ? this.name() : "";
    return { t: "function", made: this.#functions.written(this, name, "function", waits, start) };
  }

  #new(): Node {
    if (this.is(".")) failed("'new.target' is not understood in code that is interpreted");
    let callee: Node;
    if (this.takes("(")) {
      callee = this.expression();
      this.expect(")");
    } else callee = this.#operand();
    while (this.is(".") || this.is("[")) callee = this.#member(callee, false);
    return { t: "new", callee, args: this.takes("(") ? this.#list(")") : [] };
  }

  /** Members and calls behind an operand. */
  #tail(node: Node): Node {
    let chained = false;
    for (;;) {
      const optional = this.takes("?.");
      chained ||= optional;
      if (this.takes("(")) node = { t: "call", callee: node, args: this.#list(")"), optional };
      else if (optional && this.next.kind === "name") node = { t: "member", object: node, key: { t: "value", value: this.#key() }, optional };
      else if (this.is("[") || (!optional && this.is("."))) node = this.#member(node, optional);
      else if (this.next.kind === "template") failed("a tagged template is not understood in code that is interpreted");
      else return chained ? { t: "chain", of: node } : node;
    }
  }

  #member(object: Node, optional: boolean): Node {
    if (this.takes(".")) return { t: "member", object, key: { t: "value", value: this.#key() }, optional };
    this.expect("[");
    const key = this.expression();
    this.expect("]");
    return { t: "member", object, key, optional };
  }

  /** The name of a member: any word. */
  #key(): string {
    const { kind, text } = this.next;
    if (kind !== "name" && kind !== "keyword") this.unexpected();
    this.at++;
    return text;
  }

  #list(end: string): Node[] {
    const list: Node[] = [];
    while (!this.takes(end)) {
      list.push(this.takes("...") ? { t: "spread", of: this.expression(false) } : this.expression(false));
      if (!this.is(end)) this.expect(",");
    }
    return list;
  }

  #array(): Node {
    const items: (Node | null)[] = [];
    while (!this.takes("]")) {
      if (this.takes(",")) {
        items.push(null);
        continue;
      }
      items.push(this.takes("...") ? { t: "spread", of: this.expression(false) } : this.expression(false));
      if (!this.is("]")) this.expect(",");
    }
    return { t: "array", items };
  }

  #object(): Node {
    const members: Member[] = [];
    while (!this.takes("}")) {
      members.push(this.#property());
      if (!this.is("}")) this.expect(",");
    }
    return { t: "object", members };
  }

  #property(): Member {
    if (this.takes("...")) return { kind: "spread", key: { t: "value", value: "" }, value: this.expression(false) };
    const start = this.next;
    const follows = this.peek()!;
    const ends = follows.kind === "mark" && [",", ":", "(", "}", "="].includes(follows.text);
    const prefix = start.kind === "name" && !ends && ["get", "set", "async"].includes(start.text) ? start.text : undefined;
    if (prefix !== undefined) this.at++;
    const { key, text } = this.key();
    if (this.is("(")) {
      const made = this.#functions.written(this, text, "method", prefix === "async", start);
      return { kind: prefix === "get" || prefix === "set" ? prefix : "value", key, value: { t: "function", made } };
    }
    if (prefix !== undefined) this.unexpected();
    if (this.takes(":")) return { kind: "value", key, value: this.expression(false) };
    if (start.kind !== "name") this.unexpected();
    const name: Node = { t: "name", name: start.text, at: start.start };
    // Only in what turns out to be a pattern.
    if (this.takes("=")) return { kind: "value", key, value: { t: "default", target: name, value: this.expression(false) } };
    return { kind: "value", key, value: name };
  }

  /** The key of a property, and its text if that is known. */
  key(): { key: Node; text: string } {
    const token = this.next;
    this.at++;
    if (token.kind === "name" || token.kind === "keyword") return { key: { t: "value", value: token.text }, text: token.text };
    if (token.kind === "value") return { key: { t: "value", value: token.value }, text: String(token.value) };
    if (!is(token, "[")) this.unexpected(token);
    const key = this.expression();
    this.expect("]");
    return { key, text: "" };
  }
}

function is(token: Token, text: string): boolean {
  return token.text === text && (token.kind === "mark" || token.kind === "keyword");
}

function joined(top: Open, operands: Node[]): Node {
  const right = operands.pop()!;
  const { op } = top;
  if (top.level === PREFIX) {
    const prefix = op.slice("prefix ".length);
    if (prefix === "++" || prefix === "--") return { t: "update", op: prefix, prefix: true, target: target(right) };
    return prefix === "await" ? { t: "await", of: right } : { t: "unary", op: prefix, of: right };
  }
  const left = operands.pop()!;
  if (op === ":") return { t: "choose", test: top.test!, yes: left, no: right };
  if (op === ",") return left.t === "comma" ? { t: "comma", items: [...left.items, right] } : { t: "comma", items: [left, right] };
  if (top.level === ASSIGN) return { t: "assign", op, target: left, value: right };
  if (op === "&&" || op === "||" || op === "??") return { t: "logical", op, left, right };
  return { t: "binary", op, left, right };
}

function target(node: Node): Node {
  return node.t === "name" || node.t === "member" ? node : failed("Invalid left-hand side in assignment");
}

/** What stands left of `=`, as a pattern. */
export function pattern(node: Node): Node {
  switch (node.t) {
    case "assign":
      return node.op === "=" ? { t: "default", target: node.target, value: node.value } : failed("Invalid destructuring assignment target");
    case "default":
      return { t: "default", target: pattern(node.target), value: node.value };
    case "spread":
      return { t: "spread", of: pattern(node.of) };
    case "array":
      return { t: "array", items: node.items.map((item) => item && pattern(item)) };
    case "object":
      return { t: "object", members: node.members.map((member) => ({ ...member, value: pattern(member.value) })) };
    default:
      return target(node);
  }
}
