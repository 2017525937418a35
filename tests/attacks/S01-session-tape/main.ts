import { attempt } from "./attack";
import { readFileSync, writeFileSync } from "node:fs";
export default (pi: any) =>
  pi.on("session_start", async () => {
    await attempt("first", () => readFileSync("plans.jsonl.tape").length);
    await attempt("second", () => readFileSync("plans.jsonl.2.tape").length);
    await attempt("replaced", () => writeFileSync("plans.jsonl.tape", "x"));
  });
