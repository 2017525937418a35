/**
 * `pi:web/interpret/machine`: runs the steps that a function was turned into.
 *
 * The statements of a function are one list of steps; each returns the number of the next. However deep they nest, the
 * engine's stack holds one of them. Values are arrays: the first element is the array of the enclosing scope.
 */

import type { Scope } from "pi:web/interpret/nodes";

export type Values = any[];
/** Returns the number of the next step, or one of the three below. */
export type Step = (values: Values) => number;
/** The value of an expression. */
export type Read = (values: Values) => any;

export const RETURN = -1;
/** Goes on with other values. */
export const MOVE = -2;
/** Waits for a promise. */
export const WAIT = -3;

/** What a step says besides its number, read at once by whoever called it. */
export const said: { value: any; next: number } = { value: undefined, next: 0 };

/** What a `let` holds before its declaration has run. */
export const UNSET: unique symbol = Symbol("unset");

export interface Handler {
  readonly first: number;
  readonly last: number;
  readonly to: number;
  /** How many arrays of values there are inside those of the function. */
  readonly depth: number;
}

export interface Program {
  readonly steps: Step[];
  /** Innermost first. */
  readonly handlers: Handler[];
  /** Of each step, as in {@link Handler}. */
  readonly depths: number[];
}

/** A function that is under way; it goes on after it has waited. */
export class Run {
  readonly program: Program;
  values: Values;
  at = 0;
  /** What was waited for or thrown: the next step finds it in `said`. */
  #given: unknown;

  constructor(program: Program, values: Values) {
    this.program = program;
    this.values = values;
  }

  /** Goes on until it returns or waits; which of them is the answer, the value is in `said`. */
  go(): number {
    for (;;) {
      try {
        return this.#steps();
      } catch (error) {
        this.fail(error);
      }
    }
  }

  #steps(): number {
    const { steps } = this.program;
    said.value = this.#given;
    for (;;) {
      const next = steps[this.at]!(this.values);
      if (next >= 0) {
        this.at = next;
      } else if (next === MOVE) {
        this.values = said.value;
        this.at = said.next;
      } else {
        if (next === WAIT) this.at = said.next;
        return next;
      }
    }
  }

  /** Goes on where `error` is caught; throws it if that is nowhere. */
  fail(error: unknown): void {
    const { at } = this;
    const handler = this.program.handlers.find((handler) => handler.first <= at && at < handler.last);
    if (handler === undefined) throw error;
    for (let depth = this.program.depths[at]!; depth > handler.depth; depth--) this.values = this.values[0];
    this.#given = error;
    this.at = handler.to;
  }

  /** What was waited for has come. */
  arrive(value: unknown): void {
    this.#given = value;
  }
}

/** Runs what neither catches nor waits. */
function plain(steps: Step[], values: Values): unknown {
  let at = 0;
  for (;;) {
    at = steps[at]!(values);
    if (at >= 0) continue;
    if (at !== MOVE) return said.value;
    values = said.value;
    at = said.next;
  }
}

export function call(program: Program, values: Values): unknown {
  if (program.handlers.length === 0) return plain(program.steps, values);
  new Run(program, values).go();
  return said.value;
}

export async function callAndWait(program: Program, values: Values): Promise<unknown> {
  const run = new Run(program, values);
  while (run.go() === WAIT) {
    const { value } = said;
    try {
      run.arrive(await value);
    } catch (error) {
      run.fail(error);
    }
  }
  return said.value;
}

/** How far out the values of `scope` are, seen from `inner`. */
export function distance(inner: Scope, scope: Scope): number {
  let far = 0;
  for (let at = inner.holder; at !== scope.holder; at = at.up!.holder) far++;
  return far;
}
