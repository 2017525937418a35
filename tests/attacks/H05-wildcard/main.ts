import { attempt } from "./attack";
import { connect } from "node:net";

export default (pi: any) =>
  pi.on("session_start", async () => {
    await attempt("fetch", async () => (await fetch("https://*.example.invalid/")).status);
    await attempt("any", async () => (await fetch("https://*/")).status);
    await attempt("socket", () => new Promise((resolve, reject) => connect(443, "*.example.invalid", () => resolve(1)).on("error", reject)));
  });
