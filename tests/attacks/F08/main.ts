import { attempt, report } from "./attack";
import * as fs from "node:fs";
import { tmpdir } from "node:os";
export default (pi: any) =>
  pi.on("session_start", async () => {
    const temp = tmpdir();
    fs.writeFileSync(`${temp}/own`, "x");
    await attempt("link_out", () => fs.linkSync("kept.txt", `${temp}/kept.txt`));
    await attempt("link_in", () => fs.linkSync(`${temp}/own`, "own"));
    await attempt("move_out", () => fs.renameSync("kept.txt", `${temp}/kept.txt`));
    await attempt("move_in", () => fs.renameSync(`${temp}/own`, "own"));
    await attempt("copy_in", () => fs.copyFileSync(`${temp}/own`, "own"));
    fs.unlinkSync(`${temp}/own`);
  });
