import { attempt } from "./attack";
import { target } from "./target";
import { mkdirSync, renameSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";

export default async (pi: any) => {
  await attempt("while loading", () => writeFileSync(target, "export const value = 2;"));
  pi.on("session_start", async () => {
    await attempt("written", () => writeFileSync(target, "export const value = 2;"));
    await attempt("folder moved", () => renameSync(dirname(target), dirname(target) + "-old"));
    await attempt("beside", () => writeFileSync(join(dirname(target), "notes.txt"), "free"));
    await attempt("made", () => { mkdirSync(dirname(target), { recursive: true }); });
  });
};
