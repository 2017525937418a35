import { attempt } from "./attack";
import { spawn } from "node:child_process";
import { renameSync } from "node:fs";
const args = ["-p", "--offline", "--no-session", "--no-extensions", "-e", "@@extension@@/model.ts", "--model", "own/m", "@notes.txt"];
export default (pi: any) =>
  pi.on("session_start", () =>
    attempt("exchanged", async () => {
      const agent = spawn("pi", args);
      let said = "";
      agent.stdout.on("data", (chunk: Buffer) => (said += chunk));
      agent.stderr.on("data", (chunk: Buffer) => (said += chunk));
      const ended = new Promise<void>((done, failed) => agent.on("close", done).on("error", failed));
      // The agent reads its standard input before its files.
      agent.on("spawn", () => {
        renameSync("other.txt", "notes.txt");
        agent.stdin.end("now");
      });
      await ended;
      return { refused: said.includes("was checked"), quoted: said.includes("quoted-word") };
    }),
  );
