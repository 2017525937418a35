import { attempt } from "./attack";
import { execFileSync } from "node:child_process";

const env = { TAR_OPTIONS: "--checkpoint=1 --checkpoint-action=exec=sh" };

export default (pi: any) =>
  pi.on("session_start", () =>
    attempt("given", () => execFileSync("tar", ["cf", "@@tmp@@/a.tar", "a.txt"], { env, input: "touch ran", encoding: "utf8" })),
  );
