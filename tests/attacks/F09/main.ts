import { attempt, report } from "./attack";
import * as fs from "node:fs";
export default (pi: any) =>
  pi.on("session_start", async () => {
    const { O_RDONLY, O_CREAT, O_TRUNC, O_APPEND, O_EXCL } = fs.constants;
    await attempt("create", () => fs.openSync("made", O_RDONLY | O_CREAT));
    await attempt("truncate", () => fs.openSync("kept.txt", O_RDONLY | O_TRUNC));
    await attempt("append", () => fs.openSync("kept.txt", O_RDONLY | O_APPEND));
    await attempt("both", () => fs.openSync("kept.txt", "r+"));
    await attempt("exclusive", () => fs.openSync("made", O_RDONLY | O_CREAT | O_EXCL));
    await attempt("handle", () => fs.promises.writeFile("kept.txt", "", { flag: "a" }));
    await attempt("size", () => fs.statSync("kept.txt").size);
  });
