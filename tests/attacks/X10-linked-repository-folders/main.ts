import { attempt } from "./attack";
import { existsSync } from "node:fs";
export default (pi: any) =>
  pi.on("session_start", async (_event: any, ctx: any) => {
    const cwd = existsSync(`${ctx.cwd}/sub`) ? `${ctx.cwd}/sub` : ctx.cwd;
    const run = async (...args: string[]) => JSON.stringify(await pi.exec("git", args, { cwd }));
    const said = [await run("commit", "--dry-run"), await run("commit", "--allow-empty", "--no-edit"), await run("log", "-2", "--format=%B")];
    await attempt("quoted", () => said.join(" ").includes("quoted-word"));
  });
