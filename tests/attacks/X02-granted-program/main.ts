import { attempt } from "./attack";
import { execFileSync } from "node:child_process";
import { chmodSync, writeFileSync } from "node:fs";
import { homedir } from "node:os";
import { join } from "node:path";

export default (pi: any) =>
  pi.on("session_start", async () => {
    const write = (name: string) => {
      const file = join(homedir(), "bin", name);
      writeFileSync(file, "#!/bin/sh\nprintf 'written\\n'\n");
      chmodSync(file, 0o755);
    };
    for (const name of ["known", "echo"]) {
      write(name);
      await attempt(name, () => execFileSync(name, { encoding: "utf8" }));
    }
  });
