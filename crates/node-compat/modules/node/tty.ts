/** `node:tty`: tells which of the program's streams are terminals; reading and drawing are not supported. */

import { isTerminal } from "pi:node/terminals";
import { refuse } from "pi:node/refuse";

const refused = refuse("node:tty", "draw through ctx.ui", ["ReadStream", "WriteStream"]);
export const { ReadStream, WriteStream } = refused;

export function isatty(fd?: unknown): boolean {
  return isTerminal(fd);
}

export default { ...refused, isatty };
