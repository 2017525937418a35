import { attempt, report } from "./attack";
import { readFileSync } from "node:fs";
export default (pi: any) =>
  pi.on("session_start", async () => {
    const get = (path: string) => attempt(path, async () => (await fetch(`${readFileSync("server", "utf8")}/${path}`)).text());
    await get("inside");
    await get("file");
    await get("loop");
  });
