import { attempt } from "./attack";
import { writeFileSync } from "node:fs";
const names = ["cd/index.mjs", "home/index.mjs", "folder/__main__.py", "cargo/src/main.rs", "go/main.go", "with/pkg.py", "spec/pkg.py", "package/bin.js", "mount/s.js", "pre.js", "pushed/x", "variable/x", "parent/x", "attached/x", "quoted name/run", "braced/run", "new/run", "data/notes.txt"];
export default (pi: any) =>
  pi.on("session_start", async () => {
    for (const name of names) await attempt(name, () => (writeFileSync("@@home@@/srv/" + name, "new"), true));
  });
