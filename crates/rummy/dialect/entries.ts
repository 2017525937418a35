/**
 * `Entries`: the entry store as plugins see it. Each method is one call to the host, which keeps the store.
 *
 * A store is bound to a ticket, the name of the delivery on whose behalf it writes. The host knows the highest writer that a
 * ticket stands for, so a `writer` that a caller names can only lower it.
 */

import { type Change, entries as callEntries, statement } from "rummy:host";

/** A refusal of the store as plugins test for it: `PermissionError` and its kin, with the outcome of an entry that ends so. */
export class Refusal extends Error {
  readonly status: number;
  readonly outcome: string;

  constructor({ name, message, status, outcome, ...more }: { name: string; message: string; status: number; outcome: string }) {
    super(message);
    this.name = name;
    this.status = status;
    this.outcome = outcome;
    Object.assign(this, more);
  }
}

/** Waits for a call of the store; what the store refuses is thrown as a `Refusal`. */
async function asked<T>(answer: Promise<T>): Promise<T> {
  try {
    return await answer;
  } catch (error) {
    const refused = (error as { details?: { store?: any } })?.details?.store;
    throw refused ? new Refusal(refused) : error;
  }
}

/** Called for each change that the store reports. */
export type OnChanged = (change: Change) => void;

export type EntryStore = Entries & Record<string, (...args: any[]) => Promise<any>>;

export class Entries {
  /** The scheme of a path; `null` for a file. */
  static scheme(path: string): string | null {
    return /^([a-z][a-z0-9+.-]*):\/\//i.exec(path)?.[1]!.toLowerCase() ?? null;
  }

  /** A path with its scheme in lower case and each segment encoded once. */
  static normalizePath(path: string): string {
    const scheme = Entries.scheme(path);
    if (scheme === null) return path;
    const segments = path.slice(scheme.length + 3).split("/");
    return `${scheme}://${segments.map((segment) => encodeURIComponent(decoded(segment))).join("/")}`;
  }

  /** The tool whose action a path records: `log://turn_3/set/...` is one of `set`. */
  static toolFromPath(path: string): string | null {
    return /^log:\/\/turn_\d+\/([^/]+)/.exec(path)?.[1] ?? Entries.scheme(path);
  }

  /** Whether a path has a scheme that only the system writes. */
  static isSystemPath(path: string): boolean {
    return SYSTEM.has(Entries.scheme(path) ?? "");
  }
}

const SYSTEM = new Set(["instructions", "system", "reasoning", "model", "user", "assistant", "content"]);

function decoded(segment: string): string {
  try {
    return decodeURIComponent(segment);
  } catch {
    return segment;
  }
}

/** Members that the languages looks for on its own, and that are no methods of a store. */
const NO_METHODS = new Set<PropertyKey>(["then", "toJSON", "constructor"]);

/** Makes the store of one ticket; without one it is a plugin's own. */
export function storeOf(onChanged: OnChanged, ticket?: string): EntryStore {
  return new Proxy(new Entries(), {
    get(target, name) {
      if (typeof name !== "string" || NO_METHODS.has(name)) return Reflect.get(target, name);
      return async (...args: unknown[]) => {
        const { value, changes = [] } = await asked(callEntries(name, args.map(argument), ticket));
        changes.forEach(onChanged);
        return value;
      };
    },
  }) as EntryStore;
}

/** Returns what crosses to the host: no functions, and sets as lists. */
function argument(value: any): unknown {
  if (value instanceof Set) return [...value];
  if (typeof value !== "object" || value === null || Array.isArray(value)) return value ?? null;
  return Object.fromEntries(Object.entries(value).filter(([, member]) => member !== undefined && typeof member !== "function"));
}

/** Named statements: `db.get_run_by_id.get({id})`. */
export const db: any = new Proxy({}, {
  get(target, name) {
    if (typeof name !== "string" || NO_METHODS.has(name)) return Reflect.get(target, name);
    const op = (op: "run" | "get" | "all") => (params: object = {}) => asked(statement(name, op, params));
    return { run: op("run"), get: op("get"), all: op("all") };
  },
});
