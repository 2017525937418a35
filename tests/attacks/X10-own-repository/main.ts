import { attempt } from "./attack";
import { execFileSync } from "node:child_process";
import { writeFileSync } from "node:fs";

const git = (...args: string[]) => execFileSync("git", args, { cwd: "repo", encoding: "utf8" });

export default (pi: any) =>
  pi.on("session_start", async () => {
    writeFileSync("repo/a.txt", "one\n");
    writeFileSync("repo/.gitattributes", "a.txt filter=mine\n");
    await attempt("status", () => git("status", "--short"));
    await attempt("commit", () => {
      git("add", ".");
      return git("commit", "-q", "--allow-empty", "-m", "first");
    });
    await attempt("log", () => git("log", "-1", "--format=%s"));
    await attempt("stored", () => git("cat-file", "-p", "HEAD:a.txt"));
    writeFileSync("repo/a.txt", "two\n");
    await attempt("diff", () => git("diff"));
  });
