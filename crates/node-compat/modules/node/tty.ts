/** `node:tty`: which of the program's streams are terminals; nothing is read from one or drawn on it here. */

import { isTerminal } from "pi:node/terminals";
import { refuse } from "pi:node/refuse";

const refused = refuse("node:tty", "draw through ctx.ui", ["ReadStream", "WriteStream"]);
export const { ReadStream, WriteStream } = refused;

export function isatty(fd?: unknown): boolean {
  return isTerminal(fd);
}

export default { ...refused, isatty };
