/**
 * `Entries`: the entry store for plugins. Each method is one call to the host, which owns the store.
 *
 * A store is bound to a ticket, which identifies the delivery that it writes for. The host knows the highest writer that a
 * ticket allows, so a `writer` that a caller passes can only lower it.
 */

import { type Change, entries as callEntries, statement } from "rummy:host";

/** A refusal of the store, which plugins recognise by name (`PermissionError`, ...), with the outcome for the entry. */
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

/** Waits for a call of the store. A refusal of the store is thrown as a `Refusal`. */
async function asked<T>(answer: Promise<T>): Promise<T> {
  try {
    return await answer;
  } catch (error) {
    const refused = (error as { details?: { store?: any } })?.details?.store;
    throw refused ? new Refusal(refused) : error;
  }
}

/** Callback for each change that the store reports. */
export type OnChanged = (change: Change) => void;

export type EntryStore = Entries & Record<string, (...args: any[]) => Promise<any>>;

export class Entries {
  /** Returns the scheme of a path; `null` for a file. */
  static scheme(path: string): string | null {
    return /^([a-z][a-z0-9+.-]*):\/\//i.exec(path)?.[1]!.toLowerCase() ?? null;
  }

  /** Returns a path with its scheme in lower case and each segment encoded once. */
  static normalizePath(path: string): string {
    const scheme = Entries.scheme(path);
    if (scheme === null) return path;
    const segments = path.slice(scheme.length + 3).split("/");
    return `${scheme}://${segments.map((segment) => encodeURIComponent(decoded(segment))).join("/")}`;
  }

  /** Returns the tool whose action a path records: `set` for `log://turn_3/set/...`. */
  static toolFromPath(path: string): string | null {
    return /^log:\/\/turn_\d+\/([^/]+)/.exec(path)?.[1] ?? Entries.scheme(path);
  }

  /** Returns whether a path has a scheme that only the system can write. */
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

/** Members that JavaScript itself looks up, and that are not methods of a store. */
const NO_METHODS = new Set<PropertyKey>(["then", "toJSON", "constructor"]);

/** Creates the store for a ticket; without a ticket, its calls are the plugin's own. */
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

/** Converts an argument for the host: removes functions, and converts sets to lists. */
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
