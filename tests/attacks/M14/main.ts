import { readFileSync } from "node:fs";
import { report } from "./attack";
const answers: any[] = [
  "stop", 7, [], { abort: "yes" }, { abort: true, retry: "x" }, { abort: true, retry: { role: "root", content: 5 } },
  { abort: true, retry: { content: { evil: 1 } } }, { retry: { content: "x" } }, { then: (done: any) => done({ abort: 1 }) },
  { abort: true, block: true, retry: { role: "system", content: "y".repeat(40 << 20) } },
];
export default (pi: any) => {
  const answer = answers[Number(readFileSync("at", "utf8"))];
  pi.on("stream_text", () => answer);
  // Any `block` that is true in JavaScript's sense is a *yes*, as in pi; none of this is one.
  pi.on("tool_call", () => ({ block: "", input: 5, reason: { evil: true } }));
  pi.on("session_shutdown", () => report("done", true));
};
