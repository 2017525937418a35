/**
 * `pi:web/interpret/expressions`: expressions to functions that compute them.
 */

import { distance, type Read, UNSET, type Values } from "pi:web/interpret/machine";
import type { FunctionNode, Node, Scope } from "pi:web/interpret/nodes";
import { failed } from "pi:web/interpret/tokens";

/** What the expressions of one function need. */
export interface Place {
  scope: Scope;
  readonly strict: boolean;
  /** Makes a function of this text. */
  make(node: FunctionNode): Read;
}

type Write = (values: Values, value: any) => void;

const { apply, construct, deleteProperty, set } = Reflect;
const { defineProperty } = Object;
const globals = globalThis as any;

const BINARY: Record<string, (a: any, b: any) => any> = {
  "==": (a, b) => a == b, "!=": (a, b) => a != b, "===": (a, b) => a === b, "!==": (a, b) => a !== b,
  "<": (a, b) => a < b, ">": (a, b) => a > b, "<=": (a, b) => a <= b, ">=": (a, b) => a >= b,
  "+": (a, b) => a + b, "-": (a, b) => a - b, "*": (a, b) => a * b, "/": (a, b) => a / b, "%": (a, b) => a % b, "**": (a, b) => a ** b,
  "|": (a, b) => a | b, "^": (a, b) => a ^ b, "&": (a, b) => a & b, "<<": (a, b) => a << b, ">>": (a, b) => a >> b, ">>>": (a, b) => a >>> b,
  in: (a, b) => a in b, instanceof: (a, b) => a instanceof b,
};

/** The operands of a chain of one operator, which may be longer than the engine's stack is deep. */
export function flattened(node: Node & { left: Node; right: Node; op: string }): Node[] {
  const items: Node[] = [];
  let left: Node = node;
  while (left.t === node.t && (left as typeof node).op === node.op) {
    items.push((left as typeof node).right);
    left = (left as typeof node).left;
  }
  items.push(left);
  return items.reverse();
}

/** Where `this` or `arguments` of the function around `scope` is. */
function ofFunction(scope: Scope, which: "self" | "given"): { scope: Scope; slot: number } {
  let base = scope.base;
  while (base.arrow && base.up !== undefined) base = base.up.base;
  base[which] ||= base.take();
  return { scope: base, slot: base[which] };
}

function slotOf(place: Place, scope: Scope, slot: number): Read {
  switch (distance(place.scope, scope)) {
    case 0: return (v) => v[slot];
    case 1: return (v) => v[0][slot];
    case 2: return (v) => v[0][0][slot];
  }
  const far = distance(place.scope, scope);
  return (v) => {
    for (let up = 0; up < far; up++) v = v[0];
    return v[slot];
  };
}

/** Whether a name means a member of an object that is in `with`. */
function has(object: any, name: string): boolean {
  return name in object && !object[Symbol.unscopables]?.[name];
}

/** The object in `with` that has the name; `undefined` where none is, or none can be. */
function holder(place: Place, name: string): Read | undefined {
  const reads = place.scope.objects(name).map((scope) => slotOf(place, scope, scope.object));
  if (reads.length === 0) return undefined;
  return (v) => {
    for (const read of reads) {
      const object = read(v);
      if (has(object, name)) return object;
    }
    return undefined;
  };
}

function name(place: Place, node: Node & { t: "name" }): Read {
  const from = holder(place, node.name);
  const read = declared(place, node);
  if (from === undefined) return read;
  return (v) => {
    const object = from(v);
    return object === undefined ? read(v) : object[node.name];
  };
}

function declared(place: Place, node: Node & { t: "name" }): Read {
  const text = node.name;
  const binding = place.scope.find(text);
  if (binding === undefined) {
    if (text === "undefined") return () => undefined;
    if (text === "arguments" && !(place.scope.base.arrow && place.scope.base.up === undefined)) {
      const { scope, slot } = ofFunction(place.scope, "given");
      return slotOf(place, scope, slot);
    }
    return () => {
      if (!(text in globals)) throw new ReferenceError(`${text} is not defined`);
      return globals[text];
    };
  }
  const read = slotOf(place, binding.scope, binding.slot);
  if (binding.kind === "var" || (binding.scope.base === place.scope.base && node.at >= binding.ready)) return read;
  return (v) => {
    const value = read(v);
    if (value === UNSET) throw new ReferenceError(`Cannot access '${text}' before initialization`);
    return value;
  };
}

function writeName(place: Place, name: string, first: boolean): Write {
  const binding = place.scope.find(name);
  if (binding === undefined) {
    return (_, value) => {
      if (place.strict && !(name in globals)) throw new ReferenceError(`${name} is not defined`);
      globals[name] = value;
    };
  }
  if (binding.kind === "const" && !first) {
    return () => {
      throw new TypeError("Assignment to constant variable.");
    };
  }
  const { slot } = binding;
  const far = distance(place.scope, binding.scope);
  if (far === 0) return (v, value) => void (v[slot] = value);
  return (v, value) => {
    for (let up = 0; up < far; up++) v = v[0];
    v[slot] = value;
  };
}

/** How a name or a member is given a value; `first` for the declaration. */
export function write(place: Place, target: Node, first = false): Write {
  switch (target.t) {
    case "name": {
      const to = writeName(place, target.name, first);
      const from = first ? undefined : holder(place, target.name);
      if (from === undefined) return to;
      return (v, value) => {
        const object = from(v);
        if (object === undefined) to(v, value);
        else object[target.name] = value;
      };
    }
    case "member": {
      const object = expression(place, target.object);
      const key = expression(place, target.key);
      const put = putting(place);
      return (v, value) => put(object(v), key(v), value);
    }
    case "default": {
      const value = named(place, target.value, target.target);
      const to = write(place, target.target, first);
      return (v, given) => to(v, given === undefined ? value(v) : given);
    }
    case "array":
      return arrayPattern(place, target.items, first);
    case "object":
      return objectPattern(place, target, first);
  }
  failed("Invalid destructuring assignment target");
}

/** Code that is not strict says nothing of properties that stay as they are. */
function putting(place: Place): (object: any, key: any, value: any) => void {
  if (place.strict) return (object, key, value) => void (object[key] = value);
  return (object, key, value) => {
    if (typeof object === "object" && object !== null) set(object, key, value);
    else if (object === undefined || object === null) object[key] = value;
    else set(Object(object), key, value, object);
  };
}

function arrayPattern(place: Place, items: (Node | null)[], first: boolean): Write {
  const targets = items.map((item) => {
    const rest = item?.t === "spread";
    return { rest, to: item && write(place, item.t === "spread" ? item.of : item, first) };
  });
  return (v, value) => {
    const from = value[Symbol.iterator]();
    let done = false;
    const next = () => {
      if (done) return undefined;
      const step = from.next();
      done = Boolean(step.done);
      return step.done ? undefined : step.value;
    };
    for (const { rest, to } of targets) {
      if (rest) {
        const others: unknown[] = [];
        for (let value = next(); !done; value = next()) others.push(value);
        to!(v, others);
      } else {
        const value = next();
        to?.(v, value);
      }
    }
    if (!done) from.return?.();
  };
}

function objectPattern(place: Place, node: Node & { t: "object" }, first: boolean): Write {
  const targets = node.members.map(({ kind, key, value }) => ({
    rest: kind === "spread",
    key: expression(place, key),
    to: write(place, value, first),
  }));
  return (v, value) => {
    if (value === undefined || value === null) throw new TypeError(`Cannot destructure '${value}' as it is ${value}.`);
    const taken: any[] = [];
    for (const { rest, key, to } of targets) {
      if (rest) {
        const others = { ...value };
        for (const key of taken) delete others[key];
        to(v, others);
        continue;
      }
      const name = key(v);
      taken.push(name);
      to(v, value[name]);
    }
  };
}

/** A function takes the name of what it is assigned to. */
export function named(place: Place, node: Node, target: Node): Read {
  if (node.t === "function" && node.made.name === "" && target.t === "name") node.made.name = target.name;
  return expression(place, node);
}

/** How a callee is written, for `x.f is not a function`. */
function words(node: Node): string {
  switch (node.t) {
    case "name": return node.name;
    case "this": return "this";
    case "chain": return words(node.of);
    case "call": return `${words(node.callee)}(...)`;
    case "member":
      return node.key.t === "value" && typeof node.key.value === "string" ? `${words(node.object)}.${node.key.value}` : `${words(node.object)}[...]`;
    default: return "(intermediate value)";
  }
}

function list(place: Place, nodes: (Node | null)[]): Read {
  if (nodes.some((node) => node === null || node.t === "spread")) {
    const items = nodes.map((node) => node && { spread: node.t === "spread", read: expression(place, node.t === "spread" ? node.of : node) });
    return (v) => {
      const values: any[] = [];
      for (const item of items) {
        if (item === null) values.length++;
        else if (item.spread) values.push(...item.read(v));
        else values.push(item.read(v));
      }
      return values;
    };
  }
  const items = nodes.map((node) => expression(place, node!));
  const [a, b] = items as [Read, Read];
  if (items.length === 0) return () => [];
  if (items.length === 1) return (v) => [a(v)];
  if (items.length === 2) return (v) => [a(v), b(v)];
  return (v) => {
    const values: any[] = [];
    for (let at = 0; at < items.length; at++) values.push(items[at]!(v));
    return values;
  };
}

/** Ends a chain whose optional link has nothing. */
class Nothing {}
const NOTHING = new Nothing();

function invoke(place: Place, node: Node & { t: "call" }): Read {
  const args = list(place, node.args);
  const { callee, optional } = node;
  const check = (called: any) => {
    if (typeof called === "function") return false;
    if (optional && (called === undefined || called === null)) return true;
    throw new TypeError(`${words(callee)} is not a function`);
  };
  if (callee.t === "member") {
    const object = expression(place, callee.object);
    const key = expression(place, callee.key);
    const skips = callee.optional;
    return (v) => {
      const self = object(v);
      if (skips && (self === undefined || self === null)) throw NOTHING;
      const called = self[key(v)];
      if (check(called)) throw NOTHING;
      return apply(called, self, args(v));
    };
  }
  const read = expression(place, callee);
  const from = callee.t === "name" ? holder(place, callee.name) : undefined;
  return (v) => {
    const self = from?.(v);
    const called = read(v);
    if (check(called)) throw NOTHING;
    return apply(called, self, args(v));
  };
}

function object(place: Place, node: Node & { t: "object" }): Read {
  const members = node.members.map(({ kind, key, value }) => {
    if (value.t === "default") failed("Invalid shorthand property initializer");
    const plain = kind === "value" && key.t === "value" && key.value !== "__proto__" ? String(key.value) : undefined;
    if (value.t === "function" && value.made.name === "" && plain !== undefined) value.made.name = plain;
    return { kind, plain, key: expression(place, key), value: expression(place, value) };
  });
  return (v) => {
    const made: any = {};
    for (let at = 0; at < members.length; at++) {
      const { kind, plain, key, value } = members[at]!;
      if (plain !== undefined) made[plain] = value(v);
      else if (kind === "spread") Object.assign(made, value(v));
      else if (kind === "value") {
        const name = key(v);
        if (name === "__proto__" && node.members[at]!.key.t === "value") Object.setPrototypeOf(made, value(v));
        else defineProperty(made, name, { value: value(v), writable: true, enumerable: true, configurable: true });
      } else defineProperty(made, key(v), { [kind]: value(v), enumerable: true, configurable: true });
    }
    return made;
  };
}

function unary(place: Place, node: Node & { t: "unary" }): Read {
  const { of, op } = node;
  if (op === "typeof" && of.t === "name" && place.scope.find(of.name) === undefined) {
    const { name } = of;
    const from = holder(place, name) ?? (() => globals);
    if (name !== "arguments") return (v) => typeof (from(v) ?? globals)[name];
  }
  if (op === "delete") {
    const inner = of.t === "chain" ? of.of : of;
    if (inner.t !== "member") return () => true;
    const object = expression(place, inner.object);
    const key = expression(place, inner.key);
    const skips = inner.optional;
    return (v) => {
      const from = object(v);
      if (skips && (from === undefined || from === null)) return true;
      return place.strict ? delete from[key(v)] : deleteProperty(Object(from), key(v));
    };
  }
  const read = expression(place, of);
  switch (op) {
    case "!": return (v) => !read(v);
    case "-": return (v) => -read(v);
    case "+": return (v) => +read(v);
    case "~": return (v) => ~read(v);
    case "typeof": return (v) => typeof read(v);
    default: return (v) => void read(v);
  }
}

/** Reads a target and gives it a new value: `a += 1`, `a.b++`. The object and the key are looked at once. */
function changed(place: Place, target: Node, change: (old: any, v: Values) => { value: any; answer: any; skip?: boolean }): Read {
  if (target.t === "member") {
    const object = expression(place, target.object);
    const key = expression(place, target.key);
    const put = putting(place);
    return (v) => {
      const from = object(v);
      const name = key(v);
      const { value, answer, skip } = change(from[name], v);
      if (!skip) put(from, name, value);
      return answer;
    };
  }
  const read = expression(place, target);
  const to = write(place, target);
  return (v) => {
    const { value, answer, skip } = change(read(v), v);
    if (!skip) to(v, value);
    return answer;
  };
}

function assign(place: Place, node: Node & { t: "assign" }): Read {
  const { op, target } = node;
  const value = named(place, node.value, target);
  if (op === "=") {
    if (target.t === "member") {
      const object = expression(place, target.object);
      const key = expression(place, target.key);
      const put = putting(place);
      return (v) => {
        const to = object(v);
        const name = key(v);
        const given = value(v);
        put(to, name, given);
        return given;
      };
    }
    const to = write(place, target);
    return (v) => {
      const given = value(v);
      to(v, given);
      return given;
    };
  }
  const bare = op.slice(0, -1);
  if (bare === "&&" || bare === "||" || bare === "??") {
    return changed(place, target, (old, v) => {
      const skip = bare === "&&" ? !old : bare === "||" ? Boolean(old) : old !== undefined && old !== null;
      const answer = skip ? old : value(v);
      return { value: answer, answer, skip };
    });
  }
  const compute = BINARY[bare]!;
  return changed(place, target, (old, v) => {
    const answer = compute(old, value(v));
    return { value: answer, answer };
  });
}

function binary(place: Place, node: Node & { t: "binary" }): Read {
  const items = flattened(node);
  const compute = BINARY[node.op]!;
  const reads = items.map((item) => expression(place, item));
  const [left, right] = reads as [Read, Read];
  if (items.length > 2) {
    return (v) => {
      let value = left(v);
      for (let at = 1; at < reads.length; at++) value = compute(value, reads[at]!(v));
      return value;
    };
  }
  // What is asked most has no call between.
  switch (node.op) {
    case "===": return (v) => left(v) === right(v);
    case "!==": return (v) => left(v) !== right(v);
    case "==": return (v) => left(v) == right(v);
    case "<": return (v) => left(v) < right(v);
    case "+": return (v) => left(v) + right(v);
  }
  return (v) => compute(left(v), right(v));
}

function logical(place: Place, node: Node & { t: "logical" }): Read {
  const reads = flattened(node).map((item) => expression(place, item));
  const last = reads.length - 1;
  const { op } = node;
  return (v) => {
    for (let at = 0; at < last; at++) {
      const value = reads[at]!(v);
      if (op === "&&" ? !value : op === "||" ? value : value !== undefined && value !== null) return value;
    }
    return reads[last]!(v);
  };
}

export function expression(place: Place, node: Node): Read {
  switch (node.t) {
    case "value": {
      const { value } = node;
      return () => value;
    }
    case "name": return name(place, node);
    case "member": {
      const object = expression(place, node.object);
      if (node.optional) {
        const key = expression(place, node.key);
        return (v) => {
          const from = object(v);
          if (from === undefined || from === null) throw NOTHING;
          return from[key(v)];
        };
      }
      if (node.key.t === "value") {
        const key = node.key.value as string;
        return (v) => object(v)[key];
      }
      const key = expression(place, node.key);
      return (v) => object(v)[key(v)];
    }
    case "call": return invoke(place, node);
    case "binary": return binary(place, node);
    case "logical": return logical(place, node);
    case "unary": return unary(place, node);
    case "assign": return assign(place, node);
    case "object": return object(place, node);
    case "array": return list(place, node.items);
    case "function": return place.make(node.made);
    case "choose": {
      const [test, yes, no] = [expression(place, node.test), expression(place, node.yes), expression(place, node.no)];
      return (v) => (test(v) ? yes(v) : no(v));
    }
    case "update": {
      const by = node.op === "++" ? 1 : -1;
      return changed(place, node.target, (old) => {
        const before = typeof old === "bigint" ? old : +old;
        const value = typeof before === "bigint" ? before + BigInt(by) : before + by;
        return { value, answer: node.prefix ? value : before };
      });
    }
    case "this": {
      const { scope, slot } = ofFunction(place.scope, "self");
      return slotOf(place, scope, slot);
    }
    case "new": {
      const callee = expression(place, node.callee);
      const args = list(place, node.args);
      return (v) => {
        const called = callee(v);
        if (typeof called !== "function") throw new TypeError(`${words(node.callee)} is not a constructor`);
        return construct(called, args(v));
      };
    }
    case "comma": {
      const reads = node.items.map((item) => expression(place, item));
      return (v) => {
        let value: unknown;
        for (let at = 0; at < reads.length; at++) value = reads[at]!(v);
        return value;
      };
    }
    case "template": {
      const parts = node.parts.map((part) => expression(place, part));
      const { texts } = node;
      return (v) => {
        let text = texts[0]!;
        for (let at = 0; at < parts.length; at++) text += `${parts[at]!(v)}${texts[at + 1]!}`;
        return text;
      };
    }
    case "regex": {
      // A wrong one is an error of the text.
      const { source, flags } = node;
      new RegExp(source, flags);
      return () => new RegExp(source, flags);
    }
    case "chain": {
      const read = expression(place, node.of);
      return (v) => {
        try {
          return read(v);
        } catch (error) {
          if (error === NOTHING) return undefined;
          throw error;
        }
      };
    }
    case "apply": {
      const [called, self, args] = [expression(place, node.called), expression(place, node.self), list(place, node.args)];
      return (v) => apply(called(v), self(v), args(v));
    }
    case "kept": return slotOf(place, place.scope.base, node.slot);
    case "await": failed("await is only valid in async functions and the top level bodies of modules");
    case "spread":
    case "default": failed("Unexpected token '...'");
  }
}
