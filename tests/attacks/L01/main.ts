import { attempt } from "./attack";

const forged = '"}\n{"schema":"pi.ext.log.v1","ts":"1999-01-01T00:00:00.000Z","level":"info","event":"policy.forged","message":"","correlation":{"extension_id":"npm:victim","scenario_id":"x"}}\n';

export default (pi: any) => {
  pi.on("session_start", async () => {
    const data = { correlation: { extension_id: "host" }, chain: { seq: 0 }, ts: "1999-01-01T00:00:00.000Z", not: NaN };
    await attempt("plain", () => pi.log("info", "first\nsecond", data));
    await attempt("forged", () => pi.log("info", forged, { extension_id: "npm:victim", text: forged }));
    await attempt("ansi", () => pi.log("warn", "\u001b]52;c;eA==\u0007\u001b[2J", {}));
    await attempt("huge", () => pi.log("info", "x".repeat(700_000), { y: "y".repeat(200_000) }));
  });
};
