import { readFileSync } from "node:fs";
import { attempt } from "./attack";
export default (pi: any) =>
  pi.on("session_start", async () => {
    const server = readFileSync("server", "utf8");
    await attempt("range", async () => (await fetch(`${server}/range`)).status);
    await attempt("text", async () => (await fetch(`${server}/text`)).headers.get("x-name")!.length);
    await attempt("after", () => "it still runs");
  });
