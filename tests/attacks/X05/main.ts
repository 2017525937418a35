import { attempt } from "./attack";
import { execFileSync } from "node:child_process";
export default (pi: any) =>
  pi.on("session_start", async () => {
    const at = (name: string, cwd: string) => attempt(name, () => execFileSync("pwd", ["-P"], { cwd, encoding: "utf8" }));
    await at("outside", "../outside");
    await at("link", "link");
    await at("hooks", ".git/hooks");
    await at("git", ".git");
    await at("missing", "nowhere");
    await at("inside", "src");
  });
