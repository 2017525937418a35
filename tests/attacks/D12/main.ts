import { attempt } from "./attack";
import { writeFileSync } from "node:fs";
export default (pi: any) =>
  pi.on("session_start", () => attempt("ran", () => writeFileSync("a\u202eb\u001b[2Jc", "x")));
