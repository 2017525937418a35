import { attempt } from "./attack";
import { execFileSync } from "node:child_process";
/** Uses that run a program by an argument that no deny list would contain, and everyday ones. */
const uses: Record<string, [string, string[]]> = {
  strategy: ["git", ["merge", "-q", "-s", "x/evil", "other"]],
  "strategy in a cluster": ["git", ["merge", "-qsx/evil", "other"]],
  "strategy of a pick": ["git", ["cherry-pick", "--strategy=x/evil", "other"]],
  "strategy of a pull": ["git", ["pull", "--rebase", "-s", "x/evil", ".", "other"]],
  submodules: ["git", ["fetch", "--recurse-submodules=yes", "."]],
  "options in a file": ["tar", ["-cf", "out.tar", "-T", "list"]],
  "commands in standard input": ["sdiff", ["-o", "out", "a.txt", "list"]],
  abbreviation: ["git", ["log", "--outp=x", "-1"]],
  "files of a patch": ["git", ["apply", "-"]],
  "difference of any files": ["git", ["diff", "--no-index", "a.txt", "list"]],
  "search of any files": ["git", ["grep", "--no-index", "x"]],
  "commands of a rebase": ["git", ["rebase", "--continue"]],
  "strategy of a sequence": ["git", ["cherry-pick", "--continue"]],
  "hooks of a working copy's repository": ["svn", ["commit", "-m", "x"]],
  "address relative to its repository": ["svn", ["copy", "^/trunk", "^/branches/x", "-m", "x"]],
  "code as a format": ["json_pp", ["-f", "eval"]],
  status: ["git", ["status", "-sb"]],
  log: ["git", ["log", "--oneline", "-n", "1", "--format=%s"]],
  difference: ["git", ["diff", "--cached", "--stat"]],
  archive: ["tar", ["-czf", "out.tgz", "a.txt"]],
  commit: ["git", ["commit", "-qam", "y"]],
};
export default (pi: any) =>
  pi.on("session_start", async () => {
    for (const [name, [program, args]] of Object.entries(uses)) {
      const input = program === "sdiff" ? { input: "e\n!touch ran\nq\n" } : {};
      await attempt(name, () => void execFileSync(program, args, { encoding: "utf8", timeout: 15000, ...input }));
    }
  });
