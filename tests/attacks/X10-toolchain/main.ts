import { attempt } from "./attack";
import { execFileSync } from "node:child_process";
export default (pi: any) =>
  pi.on("session_start", async () => {
    const [program, args] = JSON.parse(process.env.ATTACK_CALL!);
    await attempt("ran", () => execFileSync(program, args, { encoding: "utf8" }));
  });
