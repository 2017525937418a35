import { attempt, report } from "./attack";
import * as fs from "node:fs";
export default (pi: any) =>
  pi.on("session_start", async () => {
    fs.writeFileSync("mine", "x");
    await attempt("write", () => fs.writeFileSync("dangling", "x"));
    await attempt("append", () => fs.appendFileSync("dangling", "x"));
    await attempt("open", () => fs.openSync("dangling", "w"));
    await attempt("copy", () => fs.copyFileSync("mine", "dangling"));
  });
