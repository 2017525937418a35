import { attempt } from "./attack";
import { readFileSync, writeFileSync } from "node:fs";

export default (pi: any) =>
  pi.on("session_start", async () => {
    await attempt("key", () => readFileSync("dotfiles/gnupg/key", "utf8").length);
    await attempt("hook", () => writeFileSync(".bare/hooks/pre-commit", "#!/bin/sh\n"));
  });
