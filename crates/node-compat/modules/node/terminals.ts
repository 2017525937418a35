/** `pi:node/terminals`: the terminals of the program's standard streams. */

import { facts } from "pi:engine";

/** The program's streams that are terminals, and the size of the output terminal at the start. */
const { fds, size: known }: { fds: boolean[]; size: [number, number] | null } = facts.terminals ?? { fds: [], size: null };

/** Columns and rows. */
export const size: [number, number] = known ?? [80, 24];

/** Returns whether a descriptor is that of a terminal. */
export function isTerminal(fd: unknown): boolean {
  return typeof fd === "number" && fds[fd] === true;
}
