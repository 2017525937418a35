/**
 * `pi:web/interpret/nodes`: the syntax tree, and the scopes that names are declared in.
 */

export type Node =
  | { t: "value"; value: unknown }
  | { t: "regex"; source: string; flags: string }
  | { t: "template"; texts: string[]; parts: Node[] }
  | { t: "name"; name: string; at: number }
  | { t: "this" }
  | { t: "array"; items: (Node | null)[] }
  | { t: "object"; members: Member[] }
  | { t: "function"; made: FunctionNode }
  | { t: "member"; object: Node; key: Node; optional: boolean }
  /** Where what begins with `a?.` ends. */
  | { t: "chain"; of: Node }
  | { t: "call"; callee: Node; args: Node[]; optional: boolean }
  | { t: "new"; callee: Node; args: Node[] }
  | { t: "unary"; op: string; of: Node }
  | { t: "update"; op: "++" | "--"; prefix: boolean; target: Node }
  | { t: "binary"; op: string; left: Node; right: Node }
  | { t: "logical"; op: "&&" | "||" | "??"; left: Node; right: Node }
  | { t: "assign"; op: string; target: Node; value: Node }
  | { t: "choose"; test: Node; yes: Node; no: Node }
  | { t: "comma"; items: Node[] }
  | { t: "spread"; of: Node }
  | { t: "await"; of: Node }
  /** A pattern with what stands for `undefined`. */
  | { t: "default"; target: Node; value: Node }
  /** A value that was computed before; a call of one, with its `this`. */
  | { t: "kept"; slot: number }
  | { t: "apply"; called: Node; self: Node; args: Node[] };

export interface Member {
  kind: "value" | "get" | "set" | "spread";
  key: Node;
  value: Node;
}

export type Statement =
  | { t: "expression"; of: Node }
  | { t: "declare"; kind: "var" | "let" | "const"; list: { target: Node; value: Node | undefined }[] }
  | { t: "return"; of: Node | undefined }
  | { t: "throw"; of: Node }
  | { t: "if"; test: Node; yes: Statement; no: Statement | undefined }
  | { t: "block"; body: Statement[]; scope: Scope }
  | { t: "for"; scope: Scope; first: Statement | undefined; test: Node | undefined; step: Node | undefined; body: Statement }
  | { t: "each"; scope: Scope; over: "in" | "of"; kind: "var" | "let" | "const" | undefined; target: Node; of: Node; body: Statement }
  | { t: "while"; test: Node; body: Statement; late: boolean }
  | { t: "break" | "continue"; label: string | undefined }
  | { t: "label"; label: string; body: Statement }
  | { t: "switch"; of: Node; scope: Scope; cases: { test: Node | undefined; body: Statement[] }[] }
  | { t: "try"; body: Statement; scope: Scope | undefined; caught: Node | undefined; handler: Statement | undefined; last: Statement | undefined }
  | { t: "with"; of: Node; scope: Scope; body: Statement }
  | { t: "nothing" };

export interface FunctionNode {
  name: string;
  kind: "function" | "arrow" | "method";
  waits: boolean;
  strict: boolean;
  params: Node[];
  rest: Node | undefined;
  body: Statement[];
  scope: Scope;
  /** The slot of the first parameter. */
  first: number;
  /** Where it starts and ends in the text. */
  start: number;
  end: number;
}

export interface Binding {
  readonly kind: "var" | "let" | "const";
  readonly scope: Scope;
  /** From here on in its own function it has a value. */
  ready: number;
  slot: number;
}

/**
 * The names of a function or of a block.
 *
 * A block has values of its own for each time it is entered only where that shows: it is in a loop, and a function in it
 * may keep them. The names of all others lie with those of the function.
 */
export class Scope {
  readonly up: Scope | undefined;
  readonly names = new Map<string, Binding>();
  /** Functions that are declared here, made when it is entered. */
  readonly functions: { name: string; made: FunctionNode }[] = [];
  /** The scope of the function that this is in. */
  readonly base: Scope;
  readonly looped: boolean;
  /** There is a function in it. */
  keeps = false;
  /** Of `with`: where the object is whose members are names. */
  object = 0;
  /** Of a function: how many slots its values take, the link to the enclosing ones included. */
  size = 1;
  /** Slots of what has no value before its declaration has run. */
  readonly unset: number[] = [];
  /** Of a function: where it is itself, if its name is known in it. */
  me = 0;
  /** Of a function that is no arrow: where `this` and `arguments` are, once they are used. */
  self = 0;
  given = 0;
  readonly arrow: boolean;

  constructor(up: Scope | undefined, of: "function" | "arrow" | "block", looped = false) {
    this.up = up;
    this.base = of === "block" ? up!.base : this;
    this.looped = looped;
    this.arrow = of === "arrow";
  }

  declare(name: string, kind: Binding["kind"], ready: number): void {
    const known = this.names.get(name);
    if (known !== undefined && (known.kind !== "var" || kind !== "var")) {
      throw new SyntaxError(`Identifier '${name}' has already been declared`);
    }
    if (known === undefined) this.names.set(name, { kind, scope: this, ready, slot: 0 });
  }

  /** Whether its values are made anew each time it is entered. */
  get own(): boolean {
    return this.base === this || (this.looped && this.keeps && this.names.size > 0);
  }

  /** The scope whose values hold those of this one. */
  get holder(): Scope {
    let scope: Scope = this;
    while (!scope.own) scope = scope.up!;
    return scope;
  }

  /** A place among the values. */
  take(): number {
    return this.holder.size++;
  }

  /** The scopes of `with` between here and where `name` is declared. */
  objects(name: string): Scope[] {
    const found: Scope[] = [];
    for (let scope: Scope | undefined = this; scope !== undefined && !scope.names.has(name); scope = scope.up) {
      if (scope.object !== 0) found.push(scope);
    }
    return found;
  }

  /** Where the value of `name` is, here or further out. */
  find(name: string): Binding | undefined {
    for (let scope: Scope | undefined = this; scope !== undefined; scope = scope.up) {
      const found = scope.names.get(name);
      if (found === undefined) continue;
      if (found.slot === 0) {
        found.slot = scope.take();
        if (found.kind !== "var") scope.holder.unset.push(found.slot);
      }
      return found;
    }
    return undefined;
  }
}
