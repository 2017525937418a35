import { execFileSync } from "node:child_process";
import { report } from "./attack";

const shown = ["--password-file", "path", "--author", "NAME"];

export default (pi: any) => {
  pi.on("session_start", async () => {
    execFileSync("true", ["--api-key", "unguessed-1", "--token=unguessed-2", ...shown]);
    const line = "ran: login --user me --password unguessed-3 --client-secret 'unguessed 4'";
    await pi.log("info", line, { argv: ["login", "--auth-token", "unguessed-5", ...shown] });
    report("done", true);
  });
};
