import { attempt, report } from "./attack";
import * as fs from "node:fs";
export default (pi: any) =>
  pi.on("session_start", async () => {
    fs.writeFileSync("mine", "x");
    await attempt("list", () => fs.readdirSync("d"));
    await attempt("make", () => fs.mkdirSync("d/new"));
    await attempt("file", () => fs.writeFileSync("d/new.txt", "x"));
    await attempt("rename", () => fs.renameSync("d/secret.txt", "stolen"));
    await attempt("into", () => fs.renameSync("mine", "d/mine"));
    await attempt("remove", () => fs.unlinkSync("d/secret.txt"));
    await attempt("rmrf", () => fs.rmSync("d/x", { recursive: true, force: true }));
  });
