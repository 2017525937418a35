import { attempt } from "./attack";
import * as fs from "node:fs";

export default (pi: any) =>
  pi.on("session_start", async () => {
    await attempt("list", () => fs.readdirSync(".open"));
    await attempt("move", () => fs.renameSync(".open", "opened"));
    await attempt("append", () => fs.writeFileSync(".open/another", ""));
    await attempt("capitals", () => fs.rmSync(".OPEN", { recursive: true }));
  });
