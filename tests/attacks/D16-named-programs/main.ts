import { attempt } from "./attack";
import { writeFileSync } from "node:fs";
const files: Record<string, string> = {
  searched: "@@outside@@/key/lib.py",
  editor: "@@outside@@/ed",
  folder: "@@outside@@/pkg/index.mjs",
  required: "@@outside@@/req.cjs",
};
export default (pi: any) =>
  pi.on("session_start", async () => {
    for (const [name, file] of Object.entries(files)) await attempt(name, () => writeFileSync(file, "new"));
  });
