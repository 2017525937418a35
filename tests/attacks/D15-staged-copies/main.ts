import { attempt } from "./attack";
import { readdirSync } from "node:fs";
export default (pi: any) =>
  pi.on("session_start", () => attempt("listed", () => readdirSync("@@agent@@/rummy/stage", { recursive: true })));
