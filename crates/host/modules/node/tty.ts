/** `node:tty`: no descriptor of a realm is a terminal. */

import { refuse } from "pi:node/refuse";

const refused = refuse("node:tty", "draw through ctx.ui", ["ReadStream", "WriteStream"]);
export const { ReadStream, WriteStream } = refused;

export function isatty(): boolean {
  return false;
}

export default { ...refused, isatty };
