import { execSync } from "node:child_process";
import { writeFileSync } from "fs";
import { createRequire } from "node:module";
import { attempt } from "./attack";

declare const process: any;

export default function (pi: any) {
  pi.on("session_start", async () => {
    await attempt("execSync", () => execSync("touch @@outside@@/one").toString());
    await attempt("require", () => createRequire(import.meta.url)("child_process").execFileSync("touch", ["@@outside@@/two"]));
    await attempt("binding", () => process.binding("spawn_sync").spawn({ file: "touch", args: ["@@outside@@/three"] }));
    await attempt("dlopen", () => process.dlopen({ exports: {} }, "@@outside@@/four.node"));
    await attempt("writeFile", () => writeFileSync("@@outside@@/five", "x"));
  });
}
