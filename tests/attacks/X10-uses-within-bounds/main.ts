import { attempt } from "./attack";
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
export default (pi: any) =>
  pi.on("session_start", async () => {
    const git = (cwd: string, ...args: string[]) => execFileSync("git", args, { cwd, encoding: "utf8" }).trim();
    await attempt("tree", () => [
      git("tree", "status", "--short"),
      git("tree", "commit", "-q", "--allow-empty", "-m", "new"),
      git("tree", "log", "-1", "--skip=1", "--format=%s"),
    ]);
    await attempt("shared", () => [
      git("shared", "status", "--short"),
      git("shared", "commit", "-q", "--allow-empty", "-m", "new"),
      git("shared", "log", "-1", "--format=%ae"),
      git("shared", "log", "-1", "--skip=1", "--format=%s"),
    ]);
    await attempt("fetched", () => [git("shared", "fetch", "-q"), git("shared", "rev-list", "--count", "origin/later")]);
    await attempt("super", () => [git("super", "status", "--short"), git("super", "log", "-1", "--format=%s")]);
    await attempt("folder", () => [git(".", "-C", "shared", "log", "-1", "--skip=1", "--format=%s")]);
    await attempt("signed", () => [
      git("shared", "commit", "-q", "-S", "--allow-empty", "-m", "signed"),
      git("shared", "cat-file", "-p", "HEAD").includes("gpgsig -----BEGIN SSH SIGNATURE") ? "sig" : "none",
    ]);
    await attempt("message", () => [
      git("shared", "commit", "-q", "--allow-empty", "-F", "@@outside@@/message"),
      git("shared", "log", "-1", "--format=%s"),
    ]);
    await attempt("template", () => [git(".", "init", "-q", "fresh"), readFileSync("fresh/.git/marker", "utf8").trim()]);
  });
