/**
 * `pi:web/interpret/waits`: expressions with `await` to steps and an expression without.
 *
 * ```text
 * f(a(), await b())   →   1 = a();  2 = await b();  f(1, 2)
 * ```
 */

import type { Code, Label } from "pi:web/interpret/code";
import type { Node } from "pi:web/interpret/nodes";
import { failed } from "pi:web/interpret/tokens";

/** Whether there is an `await` in it. */
function waits(node: Node): boolean {
  const open: any[] = [node];
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    if (next.t === "await") return true;
    if (next.t === "function") continue;
    for (const value of Object.values(next)) {
      if (Array.isArray(value)) open.push(...value.filter((item) => typeof item === "object" && item !== null));
      else if (typeof value === "object" && value !== null && "t" in value) open.push(value);
    }
  }
  return false;
}

/** Computes a node now, for later. */
function kept(code: Code, node: Node): Node {
  const plain = settled(code, node);
  if (plain.t === "value" || plain.t === "kept" || plain.t === "function") return plain;
  const slot = code.keep();
  store(code, slot, plain);
  return { t: "kept", slot };
}

function store(code: Code, slot: number, node: Node): void {
  const read = code.value(node);
  const put = code.into(slot);
  code.run((values) => put(values, read(values)));
}

/** Nodes whose values are wanted one after the other. */
function inOrder<T extends Node | null>(code: Code, nodes: T[]): T[] {
  const last = nodes.findLastIndex((node) => node !== null && waits(node));
  return nodes.map((node, at) => {
    if (node === null || at > last) return node;
    if (node.t !== "spread") return (at < last ? kept(code, node) : settled(code, node)) as T;
    const list: Node = { t: "array", items: [{ t: "spread", of: settled(code, node.of) }] };
    return { t: "spread", of: kept(code, list) } as T;
  });
}

/** Goes on to `right` if `left` does not decide; the outcome is in one slot. */
function decided(code: Code, op: "&&" | "||" | "??", left: Node, right: Node): Node {
  const slot = code.keep();
  const end: Label = { at: 0 };
  const here: Node = { t: "kept", slot };
  store(code, slot, settled(code, left));
  const nothing: Node = { t: "binary", op: "==", left: here, right: { t: "value", value: null } };
  code.branch(op === "&&" ? here : op === "||" ? { t: "unary", op: "!", of: here } : nothing, end);
  store(code, slot, settled(code, right));
  code.here(end);
  return here;
}

function assigned(code: Code, node: Node & { t: "assign" }): Node {
  let { target } = node;
  if (target.t === "member") {
    target = { ...target, object: kept(code, target.object), key: kept(code, target.key) };
  } else if (target.t !== "name" && waits(target)) failed("'await' in a pattern is not understood in code that is interpreted");
  if (node.op === "=") return { ...node, target, value: settled(code, node.value) };
  const op = node.op.slice(0, -1);
  if (op === "&&" || op === "||" || op === "??") {
    return decided(code, op, target, { t: "assign", op: "=", target, value: node.value });
  }
  const old = kept(code, target);
  return { t: "assign", op: "=", target, value: { t: "binary", op, left: old, right: settled(code, node.value) } };
}

/** The node with everything waited for, in steps that stand before it. */
export function settled(code: Code, node: Node): Node {
  if (!waits(node)) return node;
  switch (node.t) {
    case "await": {
      const read = code.value(node.of);
      const slot = code.keep();
      code.wait(read, slot);
      return { t: "kept", slot };
    }
    case "logical":
      return decided(code, node.op, node.left, node.right);
    case "choose": {
      const slot = code.keep();
      const [no, end]: Label[] = [{ at: 0 }, { at: 0 }];
      code.branch(node.test, no!);
      store(code, slot, node.yes);
      code.jump(end!);
      code.here(no!);
      store(code, slot, node.no);
      code.here(end!);
      return { t: "kept", slot };
    }
    case "assign":
      return assigned(code, node);
    case "unary":
      return { ...node, of: settled(code, node.of) };
    case "binary": {
      const [left, right] = inOrder(code, [node.left, node.right]) as [Node, Node];
      return { ...node, left, right };
    }
    case "member": {
      const [object, key] = inOrder(code, [node.object, node.key]) as [Node, Node];
      return { ...node, object, key };
    }
    case "call": {
      const self: Node = node.callee.t === "member" ? kept(code, node.callee.object) : { t: "value", value: undefined };
      const callee: Node = node.callee.t === "member" ? { ...node.callee, object: self } : node.callee;
      const called = kept(code, callee);
      return { t: "apply", called, self, args: inOrder(code, node.args) };
    }
    case "new": {
      const [callee, ...args] = inOrder(code, [node.callee, ...node.args]) as [Node, ...Node[]];
      return { t: "new", callee, args };
    }
    case "array":
      return { t: "array", items: inOrder(code, node.items) };
    case "object": {
      const parts = inOrder(code, node.members.flatMap(({ key, value }) => [key, value]));
      return { t: "object", members: node.members.map(({ kind }, at) => ({ kind, key: parts[2 * at]!, value: parts[2 * at + 1]! })) };
    }
    case "template":
      return { ...node, parts: inOrder(code, node.parts) };
    case "comma": {
      const items = [...node.items];
      const last = items.pop()!;
      for (const item of items) kept(code, item);
      return settled(code, last);
    }
  }
  failed("'await' is not understood here in code that is interpreted");
}
