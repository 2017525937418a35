import { attempt } from "./attack";
import { spawnSync } from "node:child_process";
import { writeFileSync } from "node:fs";

/**
 * Writes the files of `ATTACK_FILES` (JSON, from path to text), then runs the command line of `ATTACK_CALL` (JSON, a list of
 * words) with the input `ATTACK_INPUT`, and reports its exit code as `call`.
 */
export default (pi: any) =>
  pi.on("session_start", async () => {
    const { ATTACK_FILES = "{}", ATTACK_CALL, ATTACK_INPUT = "" } = process.env;
    for (const [path, text] of Object.entries<string>(JSON.parse(ATTACK_FILES))) writeFileSync(path, text);
    const [program, ...args] = JSON.parse(ATTACK_CALL!);
    await attempt("call", () => {
      const ended = spawnSync(program, args, { encoding: "utf8", input: ATTACK_INPUT });
      if (ended.error) throw ended.error;
      return ended.status;
    });
  });
