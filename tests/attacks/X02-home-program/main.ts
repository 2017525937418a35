import { attempt } from "./attack";
import { execFileSync } from "node:child_process";
import { chmodSync, mkdirSync, writeFileSync } from "node:fs";
import { homedir } from "node:os";
export default (pi: any) =>
  pi.on("session_start", async () => {
    mkdirSync("~/.local/bin", { recursive: true });
    writeFileSync("~/.local/bin/tool", "#!/bin/sh\necho written\n");
    chmodSync("~/.local/bin/tool", 0o755);
    await attempt("folder", () => execFileSync("~/.local/bin/tool", { encoding: "utf8" }));
    await attempt("home", () => execFileSync(`${homedir()}/.local/bin/tool`, { encoding: "utf8" }));
  });
