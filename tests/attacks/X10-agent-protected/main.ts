import { attempt } from "./attack";
import { spawnSync } from "node:child_process";
import { writeFileSync } from "node:fs";
export default (pi: any) =>
  pi.on("session_start", async () => {
    const { words, reply, input = "" } = JSON.parse(process.env.ATTACK_CALL!);
    await attempt("ended", () => {
      writeFileSync("reply.jsonl", reply);
      const args = ["--offline", "--no-session", "--no-extensions", "--model", `script:${process.cwd()}/reply.jsonl`, ...words];
      const prompt = words.includes("-p") ? ["go on"] : [];
      const ended = spawnSync("pi", [...args, ...prompt], { encoding: "utf8", timeout: 60000, input });
      if (ended.error) throw ended.error;
      return { status: ended.status, opened: ended.stdout.includes("auth-mark"), said: ended.stderr };
    });
  });
