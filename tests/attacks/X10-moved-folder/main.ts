import { attempt } from "./attack";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, renameSync } from "node:fs";
export default (pi: any) =>
  pi.on("session_start", async () => {
    // The program reads its standard input, so it runs until the input is closed.
    const git = spawn("git", ["hash-object", "--stdin"], { cwd: "a/b" });
    const closed = once(git, "close");
    await once(git, "spawn");
    await attempt("moved", () => (renameSync("a/b", "evil/b"), true));
    mkdirSync("a/new");
    await attempt("elsewhere", () => (renameSync("a/b", "b"), true));
    await attempt("file", () => (renameSync("a/b/x", "a/new/x"), true));
    git.stdin.end("text");
    await attempt("ended", async () => (await closed)[0]);
    await attempt("later", () => (renameSync("a/b", "evil/b"), true));
  });
