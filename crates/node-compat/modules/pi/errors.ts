/**
 * `pi:pi/errors`: converts thrown values to the host's error reports.
 *
 * Extensions may throw anything, with getters that throw in turn; building a report never does.
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

/** Returns a thrown value as a report. Only an Error has a name; anything else is its text. */
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

/** Reports an error that no caller waits for. */
export function sendError(thrown: unknown, phase: string, entry?: number): void {
  send({ type: "error", payload: errorReport(thrown, phase, entry) });
}

/** Returns pi's text of a thrown value: the message of an Error, otherwise the value as text. Runs its code, which may throw. */
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
