/**
 * Replaces `typebox` and `typebox/compile` in `model-config.js` of pi-coding-agent, which describes `models.json` by a schema and
 * compiles it when it is evaluated. That takes longer than the rest of pi's modules together, and few extensions that import pi's
 * classes read the file. So the calls that make the schema are recorded, and made when the first file is checked.
 */

import { importSync } from "pi:engine";

/** A call of a function of typebox's `Type`, and its arguments. */
class Recorded {
  readonly name: string;
  readonly args: unknown[];

  constructor(name: string, args: unknown[]) {
    this.name = name;
    this.args = args;
  }
}

type Recorder = Record<string, (...args: unknown[]) => Recorded>;

/** Records calls of any function. */
export const Type = new Proxy({} as Recorder, {
  get: (_, name) => (...args: unknown[]) => new Recorded(String(name), args),
});

/** Makes the recorded calls of a schema, each once, so that parts that are shared stay shared. */
function made(value: unknown, schemas: Map<Recorded, unknown>): unknown {
  if (value instanceof Recorded) {
    if (!schemas.has(value)) {
      const args = value.args.map((arg) => made(arg, schemas));
      schemas.set(value, importSync("typebox").Type[value.name](...args));
    }
    return schemas.get(value);
  }
  if (Array.isArray(value)) return value.map((item) => made(item, schemas));
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([name, member]) => [name, made(member, schemas)]));
}

/** The members of typebox's `Validator` that `model-config.js` uses. */
interface Validator {
  Check(value: unknown): boolean;
  Errors(value: unknown): unknown[];
}

/** Returns a validator that is compiled when it is first used. */
export function Compile(schema: Recorded): Validator {
  let compiled: Validator | undefined;
  const validator = (): Validator => (compiled ??= importSync("typebox/compile").Compile(made(schema, new Map())));
  return {
    Check: (value) => validator().Check(value),
    Errors: (value) => validator().Errors(value),
  };
}
