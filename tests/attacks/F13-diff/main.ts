import { attempt } from "./attack";
import { writeFileSync } from "node:fs";
const lines = (begin: string) => Array.from({ length: 150_000 }, (_, at) => begin + at.toString(36)).join("\n");
export default (pi: any) =>
  pi.on("session_start", async () => {
    writeFileSync("f.txt", lines(""));
    await attempt("edit", async () => (await pi.tool("edit", { path: "f.txt", edits: [{ oldText: lines(""), newText: lines("-") }] })).details.firstChangedLine);
  });
