import { attempt } from "./attack";
import { target } from "./target";
import { mkdirSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";

export default (pi: any) =>
  pi.on("session_start", async () => {
    await attempt("written", () => {
      mkdirSync(dirname(target), { recursive: true });
      writeFileSync(target, "changed");
    });
    await attempt("beside", () => writeFileSync("beside.txt", "free"));
  });
