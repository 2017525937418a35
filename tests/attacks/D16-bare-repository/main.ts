import { attempt } from "./attack";
import { mkdirSync, writeFileSync } from "node:fs";

/** Makes a folder a repository with settings of its own, under a name other than `.git`. */
export default (pi: any) =>
  pi.on("session_start", async () => {
    await attempt("settings", () => writeFileSync("notes/config", "[core]\n\tfsmonitor = touch ran; false\n"));
    await attempt("objects", () => mkdirSync("notes/objects"));
    await attempt("hook", () => writeFileSync("notes/hooks/post-checkout", "#!/bin/sh\n"));
    await attempt("elsewhere", () => writeFileSync("notes/commondir", "../other\n"));
    await attempt("other", () => writeFileSync("notes/more/config", "x"));
    await attempt("begun", () => writeFileSync("notes/more/HEAD", "ref: refs/heads/main\n"));
  });
