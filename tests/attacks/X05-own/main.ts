import { attempt } from "./attack";
import { execFileSync } from "node:child_process";
export default (pi: any) =>
  pi.on("session_start", async () => {
    const at = (name: string, cwd: string) => attempt(name, () => execFileSync("ls", [], { cwd, encoding: "utf8" }));
    await at("agent", "@@agent@@");
    await at("above", "@@home@@/.pi");
    await at("link", "@@agent@@/skills/..");
    await at("skill", "@@agent@@/skills/one");
  });
