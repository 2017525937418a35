import { attempt } from "./attack";
import { readFileSync } from "node:fs";

export default (pi: any) =>
  pi.on("session_start", async () => {
    await attempt("braces", () => readFileSync(`@@outside@@/${"{a".repeat(20)}`, "utf8"));
    await attempt("long", () => readFileSync(`@@outside@@/${"abcdefgh/".repeat(150)}`, "utf8"));
  });
