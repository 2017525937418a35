import { attempt } from "./attack";
import { execFileSync, spawn } from "node:child_process";
import { readFileSync } from "node:fs";
const leak = "ulimit -n $(ulimit -Hn); for i in $(seq 10000); do exec {f}< /dev/null || break; done 2> /dev/null; echo $f";
export default (pi: any) =>
  pi.on("session_start", async () => {
    await attempt("opened", () => execFileSync("bash", ["-c", leak], { encoding: "utf8" }));
    await attempt(
      "kept",
      () =>
        new Promise<string>((resolve) => {
          const child = spawn("bash", ["-c", leak + "; sleep 1000"]);
          child.stdout.once("data", (text: any) => resolve(String(text)));
        }),
    );
    await attempt("reads", () => readFileSync("own.txt", "utf8"));
    await attempt("runs", () => execFileSync("echo", ["ran"], { encoding: "utf8" }));
  });
