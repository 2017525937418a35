import { attempt } from "./attack";
import { execFileSync } from "node:child_process";
import { chmodSync, writeFileSync } from "node:fs";
export default (pi: any) =>
  pi.on("session_start", async () => {
    const cwd = "@@outside@@/data";
    writeFileSync(`${cwd}/run.sh`, "#!/bin/sh\necho written\n");
    chmodSync(`${cwd}/run.sh`, 0o755);
    await attempt("elsewhere", () => execFileSync("./run.sh", { cwd, encoding: "utf8" }));
    await attempt("project", () => execFileSync("./run.sh", { encoding: "utf8" }));
  });
