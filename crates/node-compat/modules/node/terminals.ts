/** `pi:node/terminals`: the terminals of the program's standard streams. */

import { facts } from "pi:engine";

/** The program's streams that are terminals, and the initial size of the output terminal. */
const { fds, size: known }: { fds: boolean[]; size: [number, number] | null } = facts.terminals ?? { fds: [], size: null };

/** Number of columns and rows. */
export const size: [number, number] = known ?? [80, 24];

/** Returns whether a descriptor refers to a terminal. */
export function isTerminal(fd: unknown): boolean {
  return typeof fd === "number" && fds[fd] === true;
}
