import { report } from "./attack";
import { execFileSync } from "node:child_process";
/** Returns the host's message, which is a cause of Node's error. */
const refusal = (error: any): string => (error?.details || !error?.cause ? String(error?.message) : refusal(error.cause));
export default (pi: any) =>
  pi.on("session_start", () => {
    try {
      report("ran", execFileSync("jq", ["--version"], { encoding: "utf8" }));
    } catch (error) {
      report("refused", refusal(error));
    }
  });
