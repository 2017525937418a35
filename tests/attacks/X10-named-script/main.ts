import { attempt } from "./attack";
import { execFileSync } from "node:child_process";
const calls: [string, string, string[]][] = [
  ["shell", "sh", ["run.sh"]],
  ["python", "python3", ["manage.py"]],
  ["find", "find", [".", "-maxdepth", "0", "-exec", "./check.sh", ";"]],
  ["tar", "tar", ["-cf", "/dev/null", "--checkpoint=1", "--checkpoint-action=exec=./check.sh", "check.sh"]],
  ["env", "env", ["./check.sh"]],
];
const folders = {
  project: "@@project@@",
  extension: "@@extension@@",
  "project/node_modules/p": "@@project@@/node_modules/p",
  "project/sub": "sub",
  "outside/data": "@@outside@@/data",
};
export default (pi: any) =>
  pi.on("session_start", async () => {
    for (const [folder, cwd] of Object.entries(folders))
      for (const [name, program, args] of calls)
        await attempt(`${name} ${folder}`, () => execFileSync(program, args, { cwd, encoding: "utf8" }));
  });
