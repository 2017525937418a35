/**
 * `pi:pi/errors`: converts thrown values to the host's error reports.
 *
 * Extensions may throw any value, even with getters that throw; creating a report never throws.
 * Positions are those of the linked module; the host maps them to the source.
 */

import { send } from "pi:engine";

export interface ErrorReport {
  entry?: number;
  phase: string;
  name?: string;
  message: string;
  stack?: string;
}

/** Converts a thrown value to a report. Only an Error has a name; any other value becomes text. */
export function errorReport(thrown: unknown, phase: string, entry?: number): ErrorReport {
  const report: ErrorReport = { phase, message: text(() => messageOf(thrown)) };
  if (entry !== undefined) report.entry = entry;
  if (isError(thrown)) {
    report.name = text(() => String(thrown.name));
    const stack = text(() => (typeof thrown.stack === "string" ? thrown.stack : ""));
    if (stack !== "") report.stack = stack;
  }
  return report;
}

/** Reports an error for which no caller waits. */
export function sendError(thrown: unknown, phase: string, entry?: number): void {
  send({ type: "error", payload: errorReport(thrown, phase, entry) });
}

/** Returns the text that pi shows: the message of an Error, or the value as text. Runs the value's code, which may throw. */
export function messageOf(thrown: unknown): string {
  return isError(thrown) ? String(thrown.message) : String(thrown);
}

/** Returns whether a value is an Error. Reading a proxy's prototype runs its handler, which may throw. */
function isError(thrown: unknown): thrown is Error {
  try {
    return thrown instanceof Error || thrown instanceof DOMException;
  } catch {
    return false;
  }
}

function text(read: () => string): string {
  try {
    return read().toWellFormed();
  } catch {
    return "(an error that cannot be shown)";
  }
}
