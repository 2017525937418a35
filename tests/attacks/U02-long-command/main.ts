import { execFileSync } from "node:child_process";

export default (pi: any) =>
  pi.on("session_start", (_event: unknown, ctx: any) => {
    try {
      execFileSync("nice", ["sh", "-c", `${"echo harmless; ".repeat(200)}echo the end of it`]);
    } catch {
      ctx.ui.notify("refused");
    }
  });
