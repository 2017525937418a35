/**
 * `pi:web/interpret/code`: the statements of a function to steps.
 */

import { type Place, expression, flattened, named, write } from "pi:web/interpret/expressions";
import { functionOf, valuesOf } from "pi:web/interpret/functions";
import { distance, MOVE, type Program, type Read, RETURN, said, type Step, type Values, WAIT } from "pi:web/interpret/machine";
import type { FunctionNode, Node, Scope, Statement } from "pi:web/interpret/nodes";
import { unrolled } from "pi:web/interpret/parser";
import { failed } from "pi:web/interpret/tokens";
import { settled } from "pi:web/interpret/waits";

/** A place among the steps that is known once they all are. */
export interface Label {
  at: number;
}

/** A step, made when all labels are known; or a jump, which costs nothing where something else jumps to it. */
type Planned = { make: (next: number) => Step; jump?: undefined } | { jump: Label };

/** What `break`, `continue` and `return` leave. */
interface Around {
  names: string[];
  /** Where `break` without a name ends. */
  breaks?: Label;
  continues?: Label;
  /** What `break` with a name leaves, if it is no loop. */
  ends?: Label;
  depth: number;
  /** The slot of an iterator that is told when its loop is left. */
  closes?: number;
  /** A `finally` on the way out: where it is, in which scope, and the slots of what comes after it. */
  last?: { label: Label; scope: Scope; to: number; value: number };
}

type Emitting = Generator<any, void, any>;

export class Code implements Place {
  scope: Scope;
  readonly strict: boolean;
  readonly #made: FunctionNode;
  readonly #planned: Planned[] = [];
  readonly #depths: number[] = [];
  readonly #around: Around[] = [];
  readonly #handlers: { first: number; last: number; to: Label; depth: number }[] = [];
  #depth = 0;

  constructor(made: FunctionNode) {
    this.#made = made;
    this.scope = made.scope;
    this.strict = made.strict;
  }

  make(node: FunctionNode): Read {
    return functionOf(node, new Code(node).program());
  }

  /** Adds a step; it is given the number of the next. */
  step(make: (next: number) => Step): void {
    this.#depths.push(this.#depth);
    this.#planned.push({ make });
  }

  /** Computes something on the way. */
  run(read: Read): void {
    this.step((next) => (values) => {
      read(values);
      return next;
    });
  }

  jump(label: Label): void {
    this.#depths.push(this.#depth);
    this.#planned.push({ jump: label });
  }

  here(label: Label): void {
    label.at = this.#planned.length;
  }

  /** A node without `await`: what it waits for is waited for in steps before it. */
  #settled(node: Node): Node {
    return this.#made.waits ? settled(this, node) : node;
  }

  value(node: Node): Read {
    return expression(this, this.#settled(node));
  }

  /** A slot of the function for a value that is needed later. */
  keep(): number {
    return this.scope.base.size++;
  }

  /** Gives slot `slot` of the function a value. */
  into(slot: number): (values: Values, value: unknown) => void {
    const far = distance(this.scope, this.scope.base);
    return (values, value) => {
      for (let up = 0; up < far; up++) values = values[0];
      values[slot] = value;
    };
  }

  /** Reads slot `slot` of the function. */
  from(slot: number): Read {
    return expression(this, { t: "kept", slot });
  }

  /** Waits for what `read` gives; the outcome is in `slot`. */
  wait(read: Read, slot: number): void {
    this.step((next) => (values) => {
      const value = read(values);
      said.value = value;
      said.next = next;
      return WAIT;
    });
    const put = this.into(slot);
    this.step((next) => (values) => {
      put(values, said.value);
      return next;
    });
  }

  /** Goes to `no` unless the test holds; goes on otherwise. */
  branch(test: Node, no: Label): void {
    const node = this.#settled(test);
    if (node.t === "logical" && node.op === "&&") {
      for (const item of flattened(node)) this.branch(item, no);
      return;
    }
    if (node.t === "unary" && node.op === "!") {
      const read = expression(this, node.of);
      this.step((next) => {
        const to = this.target(no);
        return (values) => (read(values) ? to : next);
      });
      return;
    }
    const read = expression(this, node);
    this.step((next) => {
      const to = this.target(no);
      return (values) => (read(values) ? next : to);
    });
  }

  /** Where a jump to `label` ends. */
  target(label: Label): number {
    let { at } = label;
    for (let hops = 0; hops < 100; hops++) {
      const planned = this.#planned[at];
      if (planned?.jump === undefined) break;
      at = planned.jump.at;
    }
    return at;
  }

  program(): Program {
    this.#parameters();
    this.#hoisted(this.#made.scope);
    unrolled(this.#all(this.#made.body));
    this.step(() => () => {
      said.value = undefined;
      return RETURN;
    });
    const steps = this.#planned.map((planned, at) => {
      if (planned.jump === undefined) return planned.make(at + 1);
      const to = this.target(planned.jump);
      return () => to;
    });
    const handlers = this.#handlers.map((handler) => ({ ...handler, to: this.target(handler.to) }));
    return { steps, handlers, depths: this.#depths };
  }

  /** Parameters lie where a call puts them; those that are more than a name are taken apart. */
  #parameters(): void {
    const { params, rest, scope } = this.#made;
    const all = rest === undefined ? params : [...params, rest];
    const first = this.#made.first = scope.size;
    scope.size += all.length;
    all.forEach((param, at) => {
      const binding = param.t === "name" ? scope.names.get(param.name)! : undefined;
      if (binding !== undefined) binding.slot = first + at;
    });
    all.forEach((param, at) => {
      if (param.t === "name") return;
      const read = this.from(first + at);
      const to = write(this, param, true);
      this.run((values) => to(values, read(values)));
    });
  }

  #hoisted(scope: Scope): void {
    for (const { name, made } of scope.functions) {
      const to = write(this, { t: "name", name, at: 0 }, true);
      const make = this.make(made);
      this.run((values) => to(values, make(values)));
    }
  }

  *#all(body: Statement[]): Emitting {
    for (const statement of body) yield this.#statement(statement);
  }

  /** What is in a scope of its own. */
  *#within(scope: Scope, body: () => Emitting): Emitting {
    const outer = this.scope;
    this.scope = scope;
    if (scope.own) {
      this.step((next) => {
        const fresh = valuesOf(scope);
        return (values) => {
          said.value = fresh(values);
          said.next = next;
          return MOVE;
        };
      });
      this.#depth++;
    }
    this.#hoisted(scope);
    yield body();
    if (scope.own) {
      this.#out(1);
      this.#depth--;
    }
    this.scope = outer;
  }

  /** Leaves `count` scopes. */
  #out(count: number): void {
    if (count === 0) return;
    this.step((next) => (values) => {
      for (let up = 0; up < count; up++) values = values[0];
      said.value = values;
      said.next = next;
      return MOVE;
    });
  }

  *#statement(statement: Statement): Emitting {
    switch (statement.t) {
      case "expression":
        this.run(this.value(statement.of));
        return;
      case "declare":
        for (const { target, value } of statement.list) this.#declare(statement.kind, target, value);
        return;
      case "return":
        this.#return(statement.of && this.value(statement.of));
        return;
      case "throw": {
        const read = this.value(statement.of);
        this.run((values) => {
          throw read(values);
        });
        return;
      }
      case "if": {
        const [no, end]: Label[] = [{ at: 0 }, { at: 0 }];
        this.branch(statement.test, no!);
        yield this.#statement(statement.yes);
        if (statement.no !== undefined) this.jump(end!);
        this.here(no!);
        if (statement.no !== undefined) yield this.#statement(statement.no);
        this.here(end!);
        return;
      }
      case "block":
        yield this.#within(statement.scope, () => this.#all(statement.body));
        return;
      case "label":
        yield this.#labelled(statement.label, statement.body);
        return;
      case "while":
        yield this.#while(statement);
        return;
      case "for":
        yield this.#within(statement.scope, () => this.#for(statement));
        return;
      case "each":
        yield this.#each(statement);
        return;
      case "break":
      case "continue":
        this.#leave(statement.t, statement.label);
        return;
      case "switch":
        yield this.#within(statement.scope, () => this.#switch(statement));
        return;
      case "with": {
        const slot = statement.scope.take();
        const read = this.value(statement.of);
        this.run((values) => (values[slot] = objectOf(read(values))));
        statement.scope.object = slot;
        yield this.#within(statement.scope, () => this.#statement(statement.body));
        return;
      }
      case "try":
        yield this.#try(statement);
    }
  }

  #declare(kind: "var" | "let" | "const", target: Node, value: Node | undefined): void {
    if (value === undefined && kind === "var") return;
    const read = value === undefined ? () => undefined : named(this, this.#settled(value), target);
    const to = write(this, target, true);
    this.step((next) => (values) => {
      to(values, read(values));
      return next;
    });
  }

  #return(read: Read = () => undefined): void {
    if (this.#around.every((around) => around.last === undefined && around.closes === undefined)) {
      this.step(() => (values) => {
        said.value = read(values);
        return RETURN;
      });
      return;
    }
    const slot = this.keep();
    const put = this.into(slot);
    this.run((values) => put(values, read(values)));
    const kept = this.from(slot);
    const found = this.#around.findLastIndex((around) => around.last !== undefined);
    this.#close(found);
    if (found >= 0) {
      const around = this.#around[found]!;
      const value = this.into(around.last!.value);
      this.run((values) => value(values, kept(values)));
      this.#exit(around, "return");
      return;
    }
    this.step(() => (values) => {
      said.value = kept(values);
      return RETURN;
    });
  }

  /** Tells the iterators of the loops inside of number `from` that they are left. */
  #close(from: number): void {
    for (let at = this.#around.length - 1; at > from; at--) {
      const { closes } = this.#around[at]!;
      if (closes === undefined) continue;
      const iterator = this.from(closes);
      this.run((values) => iterator(values).return?.());
    }
  }

  /** Goes to a `finally`, which goes on to `to` after it. */
  #exit(around: Around, to: Label | "return"): void {
    const put = this.into(around.last!.to);
    this.run((values) => put(values, to));
    this.#out(this.#depth - around.depth);
    this.jump(around.last!.label);
  }

  #leave(what: "break" | "continue", name: string | undefined): void {
    const found = this.#around.findLastIndex((around) => {
      if (around.last !== undefined) return false;
      if (name !== undefined) return around.names.includes(name) && (what === "break" || around.continues !== undefined);
      return what === "break" ? around.breaks !== undefined : around.continues !== undefined;
    });
    const around = this.#around[found];
    if (around === undefined) failed(name === undefined ? `Illegal ${what} statement` : `Undefined label '${name}'`);
    const through = this.#around.findLastIndex((each, at) => at > found && each.last !== undefined);
    if (through >= 0) {
      this.#close(through);
      const last = this.#around[through]!;
      const landing: Label = { at: 0 };
      this.#exit(last, landing);
      // The rest of the way, as it is from behind the `finally`.
      const kept = { depth: this.#depth, scope: this.scope, around: this.#around.splice(through) };
      this.#depth = last.depth;
      this.scope = last.last!.scope;
      this.here(landing);
      this.#leave(what, name);
      this.#around.push(...kept.around);
      this.#depth = kept.depth;
      this.scope = kept.scope;
      return;
    }
    this.#close(what === "continue" ? found : found - 1);
    this.#out(this.#depth - around.depth);
    this.jump(what === "continue" ? around.continues! : (around.ends ?? around.breaks!));
  }

  /** The names in front of a statement, for `break` and `continue`. */
  #pending: string[] = [];

  *#labelled(label: string, body: Statement): Emitting {
    this.#pending.push(label);
    if (["for", "each", "while", "label"].includes(body.t)) {
      yield this.#statement(body);
      return;
    }
    const around: Around = { names: this.#pending, ends: { at: 0 }, depth: this.#depth };
    this.#pending = [];
    this.#around.push(around);
    yield this.#statement(body);
    this.#around.pop();
    this.here(around.ends!);
  }

  #loop(): Around & { breaks: Label; continues: Label } {
    const around = { names: this.#pending, breaks: { at: 0 }, continues: { at: 0 }, depth: this.#depth };
    this.#pending = [];
    this.#around.push(around);
    return around;
  }

  *#while(statement: Statement & { t: "while" }): Emitting {
    const around = this.#loop();
    const start: Label = { at: 0 };
    this.here(start);
    if (!statement.late) this.here(around.continues);
    if (!statement.late) this.branch(statement.test, around.breaks);
    yield this.#statement(statement.body);
    if (statement.late) {
      this.here(around.continues);
      this.branch(statement.test, around.breaks);
    }
    this.jump(start);
    this.here(around.breaks);
    this.#around.pop();
  }

  *#for(statement: Statement & { t: "for" }): Emitting {
    const { first, test, step, body, scope } = statement;
    const names = this.#pending;
    this.#pending = [];
    if (first !== undefined) yield this.#statement(first);
    this.#pending = names;
    const around = this.#loop();
    const start: Label = { at: 0 };
    this.here(start);
    if (test !== undefined) this.branch(test, around.breaks);
    yield this.#statement(body);
    this.here(around.continues);
    // Functions that were made in this round keep its values.
    if (scope.own) {
      this.step((next) => (values) => {
        said.value = values.slice();
        said.next = next;
        return MOVE;
      });
    }
    if (step !== undefined) this.run(this.value(step));
    this.jump(start);
    this.here(around.breaks);
    this.#around.pop();
  }

  *#each(statement: Statement & { t: "each" }): Emitting {
    const { over, kind, target, of, body, scope } = statement;
    const [iterator, item]: number[] = [this.keep(), this.keep()];
    const read = this.value(of);
    const begin = this.into(iterator!);
    this.run((values) => begin(values, over === "of" ? read(values)[Symbol.iterator]() : keysOf(read(values))));
    const around = this.#loop();
    this.here(around.continues);
    const steps = this.from(iterator!);
    const put = this.into(item!);
    this.step((next) => {
      const to = this.target(around.breaks);
      return (values) => {
        const step = steps(values).next();
        if (step.done) return to;
        put(values, step.value);
        return next;
      };
    });
    around.closes = iterator!;
    const first = this.#planned.length;
    yield this.#within(scope, () => {
      const value = this.from(item!);
      const to = write(this, target, kind !== undefined);
      this.run((values) => to(values, value(values)));
      return this.#statement(body);
    });
    const thrown: Label = { at: 0 };
    this.#guard(first, thrown, item!);
    this.jump(around.continues);
    this.here(thrown);
    const error = this.from(item!);
    this.run((values) => {
      quietly(() => steps(values).return?.());
      throw error(values);
    });
    this.here(around.breaks);
    this.#around.pop();
  }

  *#switch(statement: Statement & { t: "switch" }): Emitting {
    const slot = this.keep();
    const put = this.into(slot);
    const read = this.value(statement.of);
    this.run((values) => put(values, read(values)));
    const around: Around = { names: [], breaks: { at: 0 }, depth: this.#depth };
    this.#around.push(around);
    const labels = statement.cases.map((): Label => ({ at: 0 }));
    statement.cases.forEach(({ test }, at) => {
      if (test === undefined) return;
      const other: Label = { at: 0 };
      this.branch({ t: "binary", op: "===", left: { t: "kept", slot }, right: test }, other);
      this.jump(labels[at]!);
      this.here(other);
    });
    const fallback = statement.cases.findIndex(({ test }) => test === undefined);
    this.jump(labels[fallback] ?? around.breaks!);
    for (const [at, { body }] of statement.cases.entries()) {
      this.here(labels[at]!);
      yield this.#all(body);
    }
    this.here(around.breaks!);
    this.#around.pop();
  }

  *#try(statement: Statement & { t: "try" }): Emitting {
    const { body, scope, caught, handler, last } = statement;
    if (last === undefined) {
      yield this.#caught(body, scope, caught, handler);
      return;
    }
    const [label, thrown, through]: Label[] = [{ at: 0 }, { at: 0 }, { at: 0 }];
    const [to, value, error]: number[] = [this.keep(), this.keep(), this.keep()];
    this.#around.push({ names: [], depth: this.#depth, last: { label: label!, scope: this.scope, to: to!, value: value! } });
    const first = this.#planned.length;
    yield this.#caught(body, scope, caught, handler);
    this.#guard(first, thrown!, error!);
    this.#around.pop();
    const put = this.into(to!);
    this.run((values) => put(values, through));
    this.jump(label!);
    this.here(thrown!);
    this.run((values) => put(values, "throw"));
    this.here(label!);
    yield this.#statement(last);
    const [way, given, failure] = [this.from(to!), this.from(value!), this.from(error!)];
    this.step((next) => (values) => {
      const where = way(values);
      if (where === "throw") throw failure(values);
      return where === "return" ? next : this.target(where);
    });
    this.#return(given);
    this.here(through!);
  }

  *#caught(body: Statement, scope: Scope | undefined, caught: Node | undefined, handler: Statement | undefined): Emitting {
    if (handler === undefined) {
      yield this.#statement(body);
      return;
    }
    const [to, end]: Label[] = [{ at: 0 }, { at: 0 }];
    const slot = this.keep();
    const first = this.#planned.length;
    yield this.#statement(body);
    this.#guard(first, to!, slot);
    this.jump(end!);
    this.here(to!);
    yield this.#within(scope!, () => {
      if (caught !== undefined) {
        const error = this.from(slot);
        const put = write(this, caught, true);
        this.run((values) => put(values, error(values)));
      }
      return this.#statement(handler);
    });
    this.here(end!);
  }

  /** Errors of the steps since `first` go to `to`, with the error in a slot of the function. */
  #guard(first: number, to: Label, slot: number): void {
    const [caught, past]: Label[] = [{ at: 0 }, { at: 0 }];
    this.#handlers.push({ first, last: this.#planned.length, to: caught!, depth: this.#depth });
    this.jump(past!);
    this.here(caught!);
    const put = this.into(slot);
    this.run((values) => put(values, said.value));
    this.jump(to);
    this.here(past!);
  }
}

function objectOf(value: unknown): object {
  if (value === undefined || value === null) throw new TypeError("Cannot convert undefined or null to object");
  return Object(value);
}

function* keysOf(object: object): Generator<string> {
  for (const key in object) yield key;
}

/** An error of an iterator that is told of an error says less than that one. */
function quietly(work: () => void): void {
  try {
    work();
  } catch {
    // The first one is thrown.
  }
}
