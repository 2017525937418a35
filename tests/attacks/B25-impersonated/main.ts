import { execFileSync } from "node:child_process";
import { attemptSync } from "./attack";
export default (pi: any) => {
  pi.on("session_start", () => attemptSync("exec", () => execFileSync("touch", ["made"]).toString()));
};
