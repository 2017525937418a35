import { attempt } from "./attack";
import { spawnSync } from "node:child_process";
const args = ["--offline", "--no-session", "-e", "@@extension@@/model.ts", "--model", "own/m"];
export default (pi: any) =>
  pi.on("session_start", async () => {
    const { words, input } = JSON.parse(process.env.ATTACK_CALL!);
    await attempt("ended", () => {
      const ended = spawnSync("pi", [...args, ...words], { encoding: "utf8", timeout: 60000, input });
      if (ended.error) throw ended.error;
      return { status: ended.status, said: ended.stderr };
    });
  });
