import { attempt, report } from "./attack";
import { readFileSync } from "node:fs";
export default (pi: any) =>
  pi.on("session_start", async () => {
    await attempt("large", async () => (await (await fetch(readFileSync("server", "utf8"))).arrayBuffer()).byteLength);
  });
