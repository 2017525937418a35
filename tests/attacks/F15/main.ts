import { attempt, report } from "./attack";
declare const process: any;
export default (pi: any) =>
  pi.on("session_start", async () => {
    await attempt("outside", () => process.env.ATTACK_CANARY ?? null);
    await attempt("case", () => process.env.attack_canary ?? null);
    await attempt("equals", () => process.env["GIVEN=ATTACK_CANARY"] ?? null);
    await attempt("star", () => process.env["*"] ?? null);
    await attempt("given", () => process.env.GIVEN);
    await attempt("spread", () => Object.keys({ ...process.env }).includes("ATTACK_CANARY"));
    await attempt("keys", () => Object.keys(process.env).includes("ATTACK_CANARY"));
    await attempt("in", () => "ATTACK_CANARY" in process.env);
    report("json", JSON.stringify(process.env).includes("canary"));
  });
