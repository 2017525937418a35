/**
 * `pi:web/interpret/functions`: functions of the language that run steps.
 */

import { call, callAndWait, type Program, type Read, UNSET, type Values } from "pi:web/interpret/machine";
import type { FunctionNode, Scope } from "pi:web/interpret/nodes";

const { defineProperty, getPrototypeOf, setPrototypeOf } = Object;
const globals = globalThis;
/** By which an `async` function is told from others. */
const Waiting = getPrototypeOf(async () => {});

/** Makes the values of a scope that is entered; how many there are is known once all of the text was read. */
export function valuesOf(scope: Scope): (outer: Values) => Values {
  let blank: Values | undefined;
  const make = () => {
    const values: Values = new Array(scope.size).fill(undefined);
    for (const slot of scope.unset) values[slot] = UNSET;
    return values;
  };
  return (outer) => {
    const values = (blank ??= make()).slice();
    values[0] = outer;
    return values;
  };
}

/** Computes a function where its text stands. */
export function functionOf(made: FunctionNode, program: Program): Read {
  const { scope, params, rest, first, kind, waits, strict } = made;
  const fresh = valuesOf(scope);
  const count = params.length;
  const length = params.findIndex((param) => param.t === "default");
  const begin = waits ? callAndWait : call;

  const started = (outer: Values, args: any[]): Values => {
    const values = fresh(outer);
    const given = args.length < count ? args.length : count;
    for (let at = 0; at < given; at++) values[first + at] = args[at];
    if (rest !== undefined) values[first + count] = args.slice(count);
    return values;
  };
  return (outer) => {
    const { name } = made;
    const written: Function =
      kind === "arrow"
        ? (...args: any[]) => begin(program, started(outer, args))
        : function (this: unknown, ...args: any[]) {
            const values = started(outer, args);
            if (scope.me !== 0) values[scope.me] = written;
            if (scope.self !== 0) values[scope.self] = strict ? this : this === undefined || this === null ? globals : Object(this);
            if (scope.given !== 0) values[scope.given] = args;
            return begin(program, values);
          };
    if (waits) setPrototypeOf(written, Waiting);
    defineProperty(written, "name", { value: name, configurable: true });
    defineProperty(written, "length", { value: length < 0 ? count : length, configurable: true });
    return written;
  };
}
