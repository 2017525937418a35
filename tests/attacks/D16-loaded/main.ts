import { attempt } from "./attack";
import { target, work } from "./target";
import { mkdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";

export default (pi: any) =>
  pi.on("session_start", async () => {
    const path = join(work, target);
    await attempt("written", () => {
      mkdirSync(dirname(path), { recursive: true });
      writeFileSync(path, "export default () => {};");
    });
    await attempt("beside", () => writeFileSync(join(work, "beside.txt"), "free"));
    await attempt("own", () => writeFileSync(join(import.meta.dirname, "main.ts"), "export default () => {};"));
  });
