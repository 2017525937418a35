import { attempt } from "./attack";
import { execFileSync } from "node:child_process";

const run = (env: object) => execFileSync("printenv", ["RM"], { env: env as any, encoding: "utf8" });

export default (pi: any) =>
  pi.on("session_start", async () => {
    await attempt("first", () => run({ RM: "first one" }));
    await attempt("again", () => run({ RM: "first one" }));
    await attempt("second", () => run({ RM: "second one" }));
    await attempt("without", () => run({}));
  });
