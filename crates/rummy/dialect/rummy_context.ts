/** `rummy`: the object that handlers and hooks of a turn receive. Verbs bind run, turn and loop; `entries` binds the writer. */

import type { EntryStore } from "./entries.ts";
import type { Hooks } from "./hooks.ts";

/** The facts of a turn that the host sends. */
export interface TurnFacts {
  project?: any;
  projectId?: number;
  runId?: number;
  turnId?: number;
  loopId?: number;
  sequence?: number;
  type?: string;
  toolSet?: Set<string> | null;
  contextSize?: number | null;
  systemPrompt?: string;
  loopPrompt?: string;
  writer?: string;
  activeFiles?: string[];
  noRepo?: boolean;
  noInteraction?: boolean;
  noWeb?: boolean;
  noProposals?: boolean;
  yolo?: boolean;
  [other: string]: unknown;
}

/** Verbs that write, and so need a writer. */
const WRITES = new Set(["set", "rm", "cp", "mv", "update"]);

export interface Node {
  tag: string;
  attrs: Record<string, unknown>;
  content: string | null;
  children: Node[];
}

export class RummyContext {
  readonly #facts: TurnFacts;
  readonly #hooks: Hooks;
  readonly #db: any;
  readonly #entries: EntryStore;
  readonly #root: Node;
  readonly #abort = new AbortController();

  constructor(facts: TurnFacts, hooks: Hooks, db: any, store: EntryStore) {
    this.#facts = facts;
    this.#hooks = hooks;
    this.#db = db;
    this.#root = this.tag("turn", {}, ["system", "context", "user", "assistant"].map((name) => this.tag(name)));
    const writer = () => this.writer;
    this.#entries = new Proxy(store, {
      get(target, name) {
        const method = Reflect.get(target, name);
        if (typeof name !== "string" || !WRITES.has(name)) return method;
        // A writer that the caller passes takes precedence over the context's.
        return (args: object = {}) => (method as (args: object) => unknown)({ writer: writer(), ...args });
      },
    });
  }

  get hooks(): Hooks { return this.#hooks; }
  get db(): any { return this.#db; }
  get entries(): EntryStore { return this.#entries; }
  get project(): any { return this.#facts.project ?? null; }
  get projectId(): any { return this.#facts.projectId; }
  get activeFiles(): string[] { return this.#facts.activeFiles ?? []; }
  get type(): any { return this.#facts.type; }
  get sequence(): number { return this.#facts.sequence ?? 0; }
  get turn(): number { return this.sequence; }
  get runId(): any { return this.#facts.runId ?? null; }
  get turnId(): any { return this.#facts.turnId ?? null; }
  get loopId(): any { return this.#facts.loopId ?? null; }
  get toolSet(): Set<string> | null { return this.#facts.toolSet ?? null; }
  get contextSize(): number | null { return this.#facts.contextSize ?? null; }
  get systemPrompt(): string { return this.#facts.systemPrompt ?? ""; }
  get loopPrompt(): string { return this.#facts.loopPrompt ?? ""; }
  get writer(): string { return this.#facts.writer ?? "model"; }
  get noRepo(): boolean { return this.#facts.noRepo === true; }
  get noInteraction(): boolean { return this.#facts.noInteraction === true; }
  get noWeb(): boolean { return this.#facts.noWeb === true; }
  get noProposals(): boolean { return this.#facts.noProposals === true; }
  get yolo(): boolean { return this.#facts.yolo === true; }
  get signal(): AbortSignal { return this.#abort.signal; }
  get system(): Node | undefined { return this.#child("system"); }
  get contextEl(): Node | undefined { return this.#child("context"); }
  get user(): Node | undefined { return this.#child("user"); }
  get assistant(): Node | undefined { return this.#child("assistant"); }

  /** Updates the facts that the host sends again: a system prompt, a tool set. */
  adopt(facts: TurnFacts): void {
    Object.assign(this.#facts, facts);
  }

  /** Aborts `signal`. */
  end(reason?: unknown): void {
    this.#abort.abort(reason);
  }

  /** Creates or replaces an entry and returns its path, which is derived from tags, summary or body if it is missing. */
  async set(entry: any = {}): Promise<string> {
    const { body = "", state = "resolved", outcome = null, visibility, attributes } = entry;
    const words = attributes?.tags ?? attributes?.summary;
    const path = entry.path || (await this.#entries.slugPath!(this.runId, "known", body, words));
    await this.#entries.set!({ ...this.#place(), path, body, state, outcome, visibility, attributes });
    return path;
  }

  async get(path: string): Promise<any> {
    return this.#entries.get!({ ...this.#place(), path });
  }

  async rm(path: string): Promise<void> {
    await this.#entries.rm!({ ...this.#place(), path });
  }

  async mv(from: string, to: string): Promise<void> {
    if (await this.#copied(from, to)) await this.rm(from);
  }

  async cp(from: string, to: string): Promise<void> {
    await this.#copied(from, to);
  }

  /** Records the status of the turn. */
  async update(body: string, { status = 102, attributes = {} }: { status?: number; attributes?: object } = {}): Promise<any> {
    return this.#entries.update!({ ...this.#place(), body, status, attributes });
  }

  async getBody(path: string): Promise<string | null> {
    return this.#entries.getBody!(this.runId, path);
  }

  async getAttributes(path: string): Promise<any> {
    return this.#entries.getAttributes!(this.runId, path);
  }

  async getState(path: string): Promise<string | null> {
    return stateOf(await this.#entries.getState!(this.runId, path))?.state ?? null;
  }

  async getOutcome(path: string): Promise<string | null> {
    return stateOf(await this.#entries.getState!(this.runId, path))?.outcome ?? null;
  }

  async getEntry(path: string): Promise<any> {
    return (await this.getEntries(path))[0] ?? null;
  }

  async getEntries(pattern: string, bodyFilter: string | null = null): Promise<any[]> {
    return (await this.#entries.getEntriesByPattern!(this.runId, pattern, bodyFilter)) ?? [];
  }

  async setAttributes(path: string, attributes: object): Promise<any> {
    return this.#entries.setAttributes!(this.runId, path, attributes);
  }

  async log(message: string): Promise<void> {
    await this.#entries.set!({ ...this.#place(), path: `content://${Date.now()}`, body: message, state: "resolved" });
  }

  tag(name: string, attrs: Record<string, unknown> = {}, children: any = []): Node {
    const node: Node = { tag: name, attrs, content: null, children: [] };
    for (const child of Array.isArray(children) ? children : [children]) {
      if (typeof child === "string") node.content = (node.content ?? "") + child;
      else if (child !== null && typeof child === "object") node.children.push(child);
    }
    return node;
  }

  #place(): object {
    return { runId: this.runId, turn: this.sequence, loopId: this.loopId, projectId: this.projectId };
  }

  #child(tag: string): Node | undefined {
    return this.#root.children.find((child) => child.tag === tag);
  }

  async #copied(from: string, to: string): Promise<boolean> {
    const body = await this.getBody(from);
    if (body === null || body === undefined) return false;
    await this.#entries.set!({ ...this.#place(), path: to, body, state: "resolved" });
    return true;
  }
}

/** Returns the state and outcome in a store's answer, which is a row or only the name of the state. */
function stateOf(row: any): { state: string; outcome?: string } | null {
  return typeof row === "string" ? { state: row } : row;
}
