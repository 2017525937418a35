import { attempt, report } from "./attack";
import * as fs from "node:fs";
export default (pi: any) =>
  pi.on("session_start", async () => {
    await attempt("read", () => fs.readFileSync("link", "utf8"));
    await attempt("stat", () => fs.statSync("link").size);
    await attempt("access", () => fs.accessSync("link"));
    await attempt("realpath", () => fs.realpathSync("link"));
    await attempt("open", () => fs.openSync("link", "r"));
    await attempt("exists", () => fs.existsSync("link"));
    await attempt("copy", () => fs.copyFileSync("link", "copy"));
    await attempt("write", () => fs.writeFileSync("link", "x"));
    await attempt("append", () => fs.appendFileSync("link", "x"));
    await attempt("truncate", () => fs.truncateSync("link"));
    await attempt("chmod", () => fs.chmodSync("link", 0o777));
  });
