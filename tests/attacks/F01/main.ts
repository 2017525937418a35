import { attempt, report } from "./attack";
import { readFileSync, writeFileSync } from "node:fs";
export default (pi: any) =>
  pi.on("session_start", async () => {
    const read = (name: string, path: string | URL) => attempt(name, () => readFileSync(path, "utf8"));
    await read("climb", "../outside/secret.txt");
    await read("twice", "a/../../outside/secret.txt");
    await read("absolute", "/etc/passwd");
    await read("tilde", "~/x");
    await read("url", new URL("file:///etc/passwd"));
    await read("drive", "C:\\x");
    await read("null", "a\0b");
    await read("empty", "");
    await read("long", "x".repeat(5000));
    await attempt("write", () => writeFileSync("../outside/new", "x"));
  });
