import { writeFileSync } from "node:fs";

/** The next message exceeds the buffer of a pipe, and nobody reads it. */
export default (pi: any) => pi.on("stream_text", () => writeFileSync("begun", ""));
