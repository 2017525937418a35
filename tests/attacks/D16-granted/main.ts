import { attempt } from "./attack";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { work } from "./target";

export default (pi: any) =>
  pi.on("session_start", async () => {
    for (const name of ["helper.ts", "tool/index.ts", "tool/lib/new.ts"]) {
      await attempt(name, () => writeFileSync(join(work, name), "export default () => {};"));
    }
    await attempt("beside", () => writeFileSync(join(work, "beside.ts"), "free"));
    await attempt("refused", () => writeFileSync(join(work, "refused.ts"), "free"));
  });
