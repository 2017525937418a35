import { attempt, report } from "./attack";
import { readFileSync } from "node:fs";
export default (pi: any) =>
  pi.on("session_start", async () => {
    const headers = { Authorization: "Bearer x", Cookie: "x=1", "X-Api-Key": "x" };
    await attempt("followed", async () => (await fetch(readFileSync("server", "utf8"), { headers })).text());
    await attempt("userinfo", async () => (await fetch("http://user:pass@127.0.0.1:@@port.canary@@/")).text());
  });
