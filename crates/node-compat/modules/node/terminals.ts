/** `pi:node/terminals`: what the program is connected with. */

import { facts } from "pi:engine";

/** Which of the program's streams are terminals, and how large the one that is written to was at the start. */
const { fds, size: known }: { fds: boolean[]; size: [number, number] | null } = facts.terminals ?? { fds: [], size: null };

/** Columns and rows. */
export const size: [number, number] = known ?? [80, 24];

/** Whether a descriptor is that of a terminal. */
export function isTerminal(fd: unknown): boolean {
  return typeof fd === "number" && fds[fd] === true;
}
