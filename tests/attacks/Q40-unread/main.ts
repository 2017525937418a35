import { writeFileSync } from "node:fs";

/** What comes next is a message that no pipe holds, and nobody takes it. */
export default (pi: any) => pi.on("stream_text", () => writeFileSync("begun", ""));
