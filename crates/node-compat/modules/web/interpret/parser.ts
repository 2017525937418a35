/**
 * `pi:web/interpret/parser`: statements and functions to nodes.
 *
 * Statements nest as deep as an object has properties, so blocks and branches are read by generators: what is half read
 * lies in a list of ours, not on the engine's stack.
 */

import { type FunctionNode, type Node, Scope, type Statement } from "pi:web/interpret/nodes";
import { pattern, Reader } from "pi:web/interpret/reader";
import { failed, type Token, tokens } from "pi:web/interpret/tokens";

/** Runs a generator that yields generators and is given what they return. */
export function unrolled<T>(first: Generator<any, T, any>): T {
  const open: Generator<any, any, any>[] = [first];
  let given: unknown;
  for (;;) {
    const step = open[open.length - 1]!.next(given);
    if (!step.done) {
      open.push(step.value);
      given = undefined;
      continue;
    }
    given = step.value;
    open.pop();
    if (open.length === 0) return given as T;
  }
}

type Reading<T> = Generator<Reading<any>, T, any>;

/** The names that a pattern gives values to. */
function named(target: Node, found: string[] = []): string[] {
  switch (target.t) {
    case "name":
      found.push(target.name);
      break;
    case "default":
      named(target.target, found);
      break;
    case "spread":
      named(target.of, found);
      break;
    case "array":
      for (const item of target.items) if (item !== null) named(item, found);
      break;
    case "object":
      for (const member of target.members) named(member.value, found);
  }
  return found;
}

class Parser {
  readonly reader: Reader;
  scope: Scope;
  #loops = 0;
  #strict = false;

  constructor(found: Token[], scope: Scope) {
    this.scope = scope;
    this.reader = new Reader(found, {
      arrow: (_, start, waits) => this.#arrow(start, waits),
      written: (_, name, kind, waits, start) => this.#written(name, kind, waits, start),
    });
  }

  /** The parameters between parentheses, and the body. */
  whole(name: string, kind: FunctionNode["kind"], waits: boolean, start: Token): FunctionNode {
    const { reader } = this;
    reader.expect("(");
    const params: Node[] = [];
    let rest: Node | undefined;
    while (!reader.takes(")")) {
      if (reader.takes("...")) rest = this.#binding();
      else {
        const target = this.#binding();
        params.push(reader.takes("=") ? { t: "default", target, value: reader.expression(false) } : target);
      }
      if (!reader.is(")")) reader.expect(",");
    }
    return this.#made(name, kind, waits, start, params, rest);
  }

  #written(name: string, kind: "function" | "method", waits: boolean, start: Token): FunctionNode {
    return this.#inside(false, () => {
      const made = this.whole(name, kind, waits, start);
      const { scope } = made;
      // Its own name is known in it, unless something in it has that name.
      if (kind === "function" && name !== "" && !scope.names.has(name)) {
        scope.declare(name, "var", 0);
        scope.me = scope.take();
        scope.names.get(name)!.slot = scope.me;
      }
      return made;
    });
  }

  #arrow(start: Token, waits: boolean): FunctionNode {
    return this.#inside(true, () => {
      const { reader } = this;
      if (reader.is("(")) {
        return this.whole("", "arrow", waits, start);
      }
      const at = reader.next.start;
      return this.#made("", "arrow", waits, start, [{ t: "name", name: reader.name(), at }], undefined);
    });
  }

  /** What is read in a function of its own. */
  #inside<T>(arrow: boolean, read: () => T): T {
    const kept = [this.scope, this.#loops, this.#strict] as const;
    for (let scope: Scope | undefined = this.scope; scope !== undefined; scope = scope.up) scope.keeps = true;
    this.scope = new Scope(this.scope, arrow ? "arrow" : "function");
    this.#loops = 0;
    const made = read();
    [this.scope, this.#loops, this.#strict] = kept;
    return made;
  }

  #made(name: string, kind: FunctionNode["kind"], waits: boolean, start: Token, params: Node[], rest: Node | undefined): FunctionNode {
    const { reader, scope } = this;
    for (const param of rest === undefined ? params : [...params, rest]) {
      for (const each of named(param)) scope.declare(each, "var", 0);
    }
    let body: Statement[];
    if (kind === "arrow") reader.expect("=>");
    if (kind === "arrow" && !reader.is("{")) {
      body = [{ t: "return", of: reader.expression(false) }];
    } else {
      reader.expect("{");
      body = this.#body("}");
    }
    const end = reader.tokens[reader.at - 1]!.end;
    return { name, kind, waits, strict: this.#strict, params, rest, body, scope, first: 0, start: start.start, end };
  }

  #body(end: "}" | ""): Statement[] {
    const { reader } = this;
    while (reader.next.kind === "value" && typeof reader.next.value === "string") {
      if (reader.next.value === "use strict") this.#strict = true;
      if (reader.peek()!.text !== ";") break;
      reader.at += 2;
    }
    return unrolled(this.#statements(end));
  }

  /** All of a text; there is nothing around it. */
  text(): Statement[] {
    return this.#body("");
  }

  get strict(): boolean {
    return this.#strict;
  }

  *#statements(end: "}" | ""): Reading<Statement[]> {
    const { reader } = this;
    const body: Statement[] = [];
    while (end === "" ? reader.next.kind !== "end" : !reader.takes(end)) body.push(yield this.#statement());
    return body;
  }

  *#block(): Reading<Statement> {
    this.reader.expect("{");
    const scope = this.#enter();
    const body: Statement[] = yield this.#statements("}");
    this.scope = scope.up!;
    return { t: "block", body, scope };
  }

  #enter(): Scope {
    this.scope = new Scope(this.scope, "block", this.#loops > 0);
    return this.scope;
  }

  *#statement(): Reading<Statement> {
    const { reader } = this;
    const token = reader.next;
    const { kind, text } = token;
    if (kind === "mark") {
      if (text === "{") return yield this.#block();
      if (text === ";") {
        reader.at++;
        return { t: "nothing" };
      }
    }
    if (kind === "name") {
      if (reader.peek()!.text === ":") {
        reader.at += 2;
        return { t: "label", label: text, body: yield this.#statement() };
      }
      if (text === "async" && reader.peek()!.text === "function" && !reader.peek()!.fresh) {
        reader.at += 2;
        return this.#declared(true, token);
      }
      if (text === "let" && (reader.peek()!.kind === "name" || ["[", "{"].includes(reader.peek()!.text))) {
        reader.at++;
        return this.#end(this.#declare("let", false));
      }
    }
    if (kind !== "keyword") return this.#end({ t: "expression", of: reader.expression() });
    return yield this.#keyword(token);
  }

  *#keyword(token: Token): Reading<Statement> {
    const { reader } = this;
    reader.at++;
    switch (token.text) {
      case "var":
      case "const":
        return this.#end(this.#declare(token.text, false));
      case "function":
        return this.#declared(false, token);
      case "return":
        return this.#end({ t: "return", of: this.#ends() ? undefined : reader.expression() });
      case "throw":
        return this.#end({ t: "throw", of: reader.expression() });
      case "if": {
        const test = this.#head();
        const yes: Statement = yield this.#statement();
        return { t: "if", test, yes, no: reader.takes("else") ? yield this.#statement() : undefined };
      }
      case "while":
        return { t: "while", test: this.#head(), body: yield this.#looped(), late: false };
      case "do": {
        const body: Statement = yield this.#looped();
        reader.expect("while");
        const test = this.#head();
        reader.takes(";");
        return { t: "while", test, body, late: true };
      }
      case "for":
        return yield this.#for();
      case "break":
      case "continue":
        return this.#end({ t: token.text, label: reader.next.kind === "name" && !reader.next.fresh ? reader.name() : undefined });
      case "with": {
        const of = this.#head();
        const scope = this.#enter();
        const body: Statement = yield this.#statement();
        this.scope = scope.up!;
        return { t: "with", of, scope, body };
      }
      case "switch":
        return yield this.#switch();
      case "try":
        return yield this.#try();
      case "debugger":
        return this.#end({ t: "nothing" });
      case "class":
      case "import":
      case "export":
        failed(`'${token.text}' is not understood in code that is interpreted`);
    }
    reader.at--;
    return this.#end({ t: "expression", of: reader.expression() });
  }

  #head(): Node {
    this.reader.expect("(");
    const node = this.reader.expression();
    this.reader.expect(")");
    return node;
  }

  *#looped(): Reading<Statement> {
    this.#loops++;
    const body: Statement = yield this.#statement();
    this.#loops--;
    return body;
  }

  /** Whether a statement ends here. */
  #ends(): boolean {
    const { next } = this.reader;
    return next.kind === "end" || next.fresh || next.text === ";" || next.text === "}";
  }

  #end(statement: Statement): Statement {
    if (!this.reader.takes(";") && !this.#ends()) this.reader.unexpected();
    return statement;
  }

  #declared(waits: boolean, start: Token): Statement {
    const { reader } = this;
    if (reader.is("*")) failed("a generator is not understood in code that is interpreted");
    const name = reader.name();
    if (!this.scope.names.has(name)) this.scope.declare(name, "var", 0);
    const made = this.#inside(false, () => this.whole(name, "function", waits, start));
    this.scope.functions.push({ name, made });
    return { t: "nothing" };
  }

  #declare(kind: "var" | "let" | "const", head: boolean): Statement & { t: "declare" } {
    const { reader } = this;
    const list: { target: Node; value: Node | undefined }[] = [];
    do {
      const target = this.#binding();
      const value = reader.takes("=") ? reader.expression(false, head) : undefined;
      const over = head && (reader.is("in") || (reader.next.kind === "name" && reader.next.text === "of"));
      if (value === undefined && !over && (kind === "const" || target.t !== "name")) failed("Missing initializer in const declaration");
      const scope = kind === "var" ? this.scope.base : this.scope;
      for (const name of named(target)) scope.declare(name, kind, reader.next.start);
      list.push({ target, value });
    } while (reader.takes(","));
    return { t: "declare", kind, list };
  }

  /** A name or a pattern of names. */
  #binding(): Node {
    const { reader } = this;
    if (reader.next.kind === "name") return { t: "name", at: reader.next.start, name: reader.name() };
    if (!reader.is("{") && !reader.is("[")) reader.unexpected();
    // The same as the literal, up to its partner: `= value` behind it is not of it.
    const close = reader.next.partner!;
    const end = reader.tokens[close + 1]!;
    reader.tokens[close + 1] = { kind: "end", text: "", start: end.start, end: end.start, fresh: end.fresh };
    const node = pattern(reader.expression(false));
    reader.tokens[close + 1] = end;
    return node;
  }

  *#for(): Reading<Statement> {
    const { reader } = this;
    if (reader.is("await")) failed("'for await' is not understood in code that is interpreted");
    reader.expect("(");
    this.#loops++;
    const scope = this.#enter();
    let first: Statement | undefined;
    let kind: "var" | "let" | "const" | undefined;
    if (reader.is("var") || reader.is("const") || (reader.next.text === "let" && reader.peek()!.kind !== "keyword")) {
      kind = reader.next.text as "var";
      reader.at++;
      first = this.#declare(kind, true);
    } else if (!reader.is(";")) {
      first = { t: "expression", of: reader.expression(true, true) };
    }
    const over = reader.next.text;
    let statement: Statement;
    if (first !== undefined && (over === "in" || over === "of")) {
      reader.at++;
      const target = first.t === "declare" ? first.list[0]!.target : pattern((first as Statement & { t: "expression" }).of);
      // What is gone through is outside of what a round has.
      this.scope = scope.up!;
      const of = reader.expression(over === "in");
      this.scope = scope;
      reader.expect(")");
      statement = { t: "each", scope, over, kind, target, of, body: yield this.#statement() };
    } else {
      reader.expect(";");
      const test = reader.is(";") ? undefined : reader.expression();
      reader.expect(";");
      const step = reader.is(")") ? undefined : reader.expression();
      reader.expect(")");
      statement = { t: "for", scope, first, test, step, body: yield this.#statement() };
    }
    this.scope = scope.up!;
    this.#loops--;
    return statement;
  }

  *#switch(): Reading<Statement> {
    const { reader } = this;
    const of = this.#head();
    reader.expect("{");
    const scope = this.#enter();
    const cases: { test: Node | undefined; body: Statement[] }[] = [];
    while (!reader.takes("}")) {
      const test = reader.takes("default") ? undefined : (reader.expect("case"), reader.expression());
      reader.expect(":");
      const body: Statement[] = [];
      while (!reader.is("case") && !reader.is("default") && !reader.is("}")) body.push(yield this.#statement());
      cases.push({ test, body });
    }
    this.scope = scope.up!;
    return { t: "switch", of, scope, cases };
  }

  *#try(): Reading<Statement> {
    const { reader } = this;
    const body: Statement = yield this.#block();
    let scope: Scope | undefined;
    let caught: Node | undefined;
    let handler: Statement | undefined;
    if (reader.takes("catch")) {
      scope = this.#enter();
      if (reader.takes("(")) {
        caught = this.#binding();
        for (const name of named(caught)) scope.declare(name, "let", 0);
        reader.expect(")");
      }
      handler = yield this.#block();
      this.scope = scope.up!;
    }
    const last: Statement | undefined = reader.takes("finally") ? yield this.#block() : undefined;
    if (handler === undefined && last === undefined) failed("Missing catch or finally after try");
    return { t: "try", body, scope, caught, handler, last };
  }
}

/** A function of a text: what `new Function(...params, text)` makes of it. */
export function parse(params: string, text: string): FunctionNode {
  const scope = new Scope(undefined, "function");
  // As the language does: neither text may end what the other began.
  const head = new Parser(tokens(`(${params}\n) {}`), scope);
  const { params: targets, rest } = head.whole("anonymous", "function", false, head.reader.next);
  const parser = new Parser(tokens(text), scope);
  const body = parser.text();
  return { name: "anonymous", kind: "function", waits: false, strict: parser.strict, params: targets, rest, body, scope, first: 0, start: 0, end: text.length };
}
