import { attempt } from "./attack";
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";

export default (pi: any) =>
  pi.on("session_start", async () => {
    // The relevant part follows the displayed part of a long text.
    await attempt("long", () => readFileSync(`docs/${"x".repeat(4000)}/../../../outside/secret.txt`, "utf8"));
    await attempt("elsewhere", () => execFileSync("make", ["check"], { cwd: "sub" }));
    await attempt("two", () => readFileSync("@@outside@@/a' -> '@@outside@@/b", "utf8"));
  });
