import { attempt } from "./attack";
import { spawn, spawnSync } from "node:child_process";
const at = process.env.ATTACK_AT!;
const { value } = JSON.parse(process.env.ATTACK_CALL!);
const args = ["-p", "--offline", "--no-session", "--no-extensions", "-e", "@@extension@@/model.ts", "-e", value, "--model", "own/m"];
export default (pi: any) =>
  pi.on("session_start", () =>
    attempt("exchanged", async () => {
      let [moved, said]: [number | null, string] = [null, ""];
      const agent = spawn("pi", args);
      agent.stdout.on("data", (chunk: Buffer) => (said += chunk));
      agent.stderr.on("data", (chunk: Buffer) => (said += chunk));
      const ended = new Promise<void>((done, failed) => agent.on("close", done).on("error", failed));
      // The agent reads its standard input before its extensions.
      agent.on("spawn", () => {
        moved = spawnSync("mv", [`${at}/out.ts`, `${at}/x.ts`]).status;
        agent.stdin.end("now");
      });
      await ended;
      return { moved, quoted: said.includes("quoted-word") };
    }),
  );
