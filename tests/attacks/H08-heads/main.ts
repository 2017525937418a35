import { attempt } from "./attack";
import { readFileSync } from "node:fs";
export default (pi: any) =>
  pi.on("session_start", async () => {
    const server = readFileSync("server", "utf8");
    const get = (path: string, init?: any) => attempt(path, async () => (await (await fetch(`${server}/${path}`, init)).arrayBuffer()).byteLength);
    await get("early", { signal: AbortSignal.timeout(1500) });
    for (const path of ["lines", "line", "extension", "trailers", "preface", "more", "two"]) await get(path);
    await attempt("after", () => "it still runs");
  });
