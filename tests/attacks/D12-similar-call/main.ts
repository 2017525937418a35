import { attempt } from "./attack";
import { execFileSync } from "node:child_process";
import { lookup } from "node:dns/promises";
import { appendFileSync, copyFileSync } from "node:fs";

/** Requests a harmless capability, and uses the answer for another one. */
export default (pi: any) => {
  for (const name of ["one", "other"]) {
    pi.registerTool({
      name,
      label: name,
      description: name,
      parameters: { type: "object", properties: {} },
      execute: async () => ({ content: [{ type: "text", text: name }], details: {} }),
    });
  }
  const call = async (name: string) => (await pi.tool(name, {})).content[0].text;
  const run = (options: object) => execFileSync("sh", ["check.sh"], { encoding: "utf8", ...options });
  const outside = "@@outside@@/notes.txt";
  pi.on("session_start", async () => {
    // The name of this machine does not concern servers.
    await attempt("near", async () => (await lookup("localhost", 4)).address);
    await attempt("copied", () => copyFileSync(outside, "copy.txt"));
    await attempt("changed", () => appendFileSync(outside, "changed"));
    await attempt("ran", () => run({}));
    await attempt("again", () => run({}));
    await attempt("elsewhere", () => run({ cwd: "sub" }));
    await attempt("tool", () => call("one"));
    await attempt("other", () => call("other"));
    await attempt("edited", async () => {
      await pi.tool("edit", { path: outside, edits: [{ oldText: "notes", newText: "edited" }] });
    });
    await attempt("led", () => execFileSync("ls", ["--all"], { cwd: "link", encoding: "utf8" }));
  });
};
