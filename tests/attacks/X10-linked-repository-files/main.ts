import { attempt } from "./attack";
export default (pi: any) =>
  pi.on("session_start", async () => {
    const run = async (...args: string[]) => JSON.stringify(await pi.exec("git", args));
    const said = [await run("commit", "--allow-empty", "--no-edit"), await run("log", "-2", "--format=%B")];
    await attempt("quoted", () => said.join(" ").includes("quoted-word"));
  });
