import { attempt } from "./attack";
export default (pi: any) =>
  pi.on("session_start", async (_event: unknown, ctx: any) => {
    const users = JSON.stringify(ctx.sessionManager.getEntries().filter((entry: any) => entry.message?.role === "user"));
    await attempt("users", () => users);
    await attempt("planted", () => users.includes("planted"));
  });
