import { attempt } from "./attack";
import { spawnSync } from "node:child_process";
import { mkdirSync, writeFileSync } from "node:fs";
export default (pi: any) =>
  pi.on("session_start", async () => {
    mkdirSync("notes", { recursive: true });
    writeFileSync("notes/evil.t", "open(F, '>', 'ran'); print \"1..1\\nok 1\\n\";");
    writeFileSync("notes/evil.js", "require('fs').writeFileSync('ran', '')");
    const [program, ...args] = JSON.parse(process.env.ATTACK_CALL!);
    await attempt("call", () => {
      const ended = spawnSync(program, args, { encoding: "utf8" });
      if (ended.error) throw ended.error;
      return ended.status;
    });
  });
