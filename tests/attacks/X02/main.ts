import { attempt, report } from "./attack";
import { execFileSync } from "node:child_process";
import { chmodSync, writeFileSync } from "node:fs";
export default (pi: any) =>
  pi.on("session_start", async () => {
    const run = (name: string, program: string) => attempt(name, () => execFileSync(program, { encoding: "utf8" }));
    await run("relative", "./bin/brought");
    await run("absolute", `${process.cwd()}/bin/brought`);
    await run("found", "brought");
    writeFileSync("written", "#!/bin/sh\necho ran\n");
    chmodSync("written", 0o755);
    await run("written", "./written");
    await run("link", "./link");
  });
