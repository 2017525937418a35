import { join } from "node:path";
import { attempt, report } from "./attack";

export default (pi: any) => {
  pi.on("session_start", async () => {
    const at = (...names: string[]) => join(process.cwd(), ...names);
    await attempt("module", async () => (await import(at("later.mjs"))).value);
    await attempt("common", async () => (await import(at("later.cjs"))).value);
    await attempt("elsewhere", async () => (await import(at("..", "outside", "later.mjs"))).value);
    report("ran", (globalThis as any).ran ?? null);
  });
};
