import { attempt } from "./attack";
import { execFileSync } from "node:child_process";
const used = (env: Record<string, string | undefined>) => execFileSync("pi", ["-p", "hi"], { env, encoding: "utf8" }).trim();
export default (pi: any) =>
  pi.on("session_start", () => attempt("used", () => [used(process.env), used({ PATH: process.env.PATH })]));
