import { attempt } from "./attack";
import { execFileSync } from "node:child_process";
export default (pi: any) =>
  pi.on("session_start", async () => {
    for (const [name, path] of [["inside", "in.txt"], ["outside", "@@outside@@/x"], ["agent", "@@agent@@/x.json"], ["home", "@@home@@/.profile"]])
      await attempt(name, () => execFileSync("touch", [path]).toString());
  });
