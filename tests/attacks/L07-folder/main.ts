import { execFileSync } from "node:child_process";
import { attempt } from "./attack";

export default (pi: any) => pi.on("session_start", () => attempt("exec", () => execFileSync("true", []).toString()));
