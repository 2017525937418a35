/**
 * `rummy:host`: the entry store of a rummy session, through two hostcalls.
 *
 * Only a session of that dialect serves them; in others, both reject with `unsupported`. A ticket names the delivery for
 * which a call is made, so that the host knows the writer; a call without a ticket is a plugin's own.
 */

import { call } from "pi:hostcall";

/** One change made by a call, for the hook `entry.changed`. */
export interface Change {
  runId: number;
  path: string;
  changeType: string;
}

/** Calls a method of the entry store. */
export async function entries(method: string, args: unknown[], ticket?: string): Promise<{ value: any; changes?: Change[] }> {
  const named = ticket === undefined ? {} : { ticket };
  return (await call("rummy.entries", "session", { method, args, ...named })).output;
}

/** Runs a named statement: `run` returns its changes, `get` one row or nothing, `all` rows. */
export async function statement(name: string, op: "run" | "get" | "all", params: object): Promise<any> {
  const { value } = (await call("rummy.db", "session", { op, statement: name, params })).output;
  return op === "get" ? (value ?? undefined) : value;
}
