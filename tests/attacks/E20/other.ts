import { attemptSync, report } from "./attack";

export default (pi: any) => {
  let kept: any;
  pi.on("session_start", (event: any, ctx: any) => {
    report("other", { exec: typeof pi.exec, ui: typeof ctx.ui.notify, cwd: typeof ctx.cwd === "string" });
    if (event.reason !== "startup") return;
    kept = ctx;
  });
  pi.registerCommand("reload", {
    description: "loads everything again",
    handler: async (_args: string, ctx: any) => {
      await ctx.reload();
      attemptSync("old ctx", () => kept.cwd);
      attemptSync("old pi", () => pi.getCommands());
    },
  });
};
