import { attempt } from "./attack";
import { spawn, spawnSync } from "node:child_process";
import { renameSync, writeFileSync } from "node:fs";
const at = process.env.ATTACK_AT!;
const { option, prompt, when, from, to } = JSON.parse(process.env.ATTACK_CALL!);
const args = ["-p", "--offline", "--no-session", "--no-extensions", "-e", "@@extension@@/model.ts", "--model", "own/m", option, `${at}/texts`];
export default (pi: any) =>
  pi.on("session_start", () =>
    attempt("exchanged", async () => {
      let [moved, said]: [number | null, string] = [null, ""];
      const exchange = () => {
        if (moved !== null) return;
        if (to === "texts") renameSync(`${at}/texts`, `${at}/old`);
        moved = spawnSync("mv", [`${at}/${from}`, `${at}/${to}`]).status;
        writeFileSync("go", "");
      };
      if (when === "before") writeFileSync("go", "");
      const agent = spawn("pi", args);
      const heard = (chunk: Buffer) => {
        said += chunk;
        if (said.includes("started")) exchange();
      };
      agent.stdout.on("data", heard);
      agent.stderr.on("data", heard);
      const ended = new Promise<void>((done, failed) => agent.on("close", done).on("error", failed));
      // The agent reads its standard input before its files.
      agent.on("spawn", () => {
        if (when === "before") exchange();
        agent.stdin.end(prompt);
      });
      await ended;
      return { moved, refused: said.includes("was checked"), quoted: said.includes("quoted-word") };
    }),
  );
