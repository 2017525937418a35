import { attempt } from "./attack";
import { readFileSync, writeFileSync } from "node:fs";
export default (pi: any) =>
  pi.on("session_start", async () => {
    await attempt("read", () => readFileSync("@@outside@@/key", "utf8"));
    await attempt("result", () => readFileSync("@@outside@@/result", "utf8"));
    await attempt("start", () => writeFileSync("@@outside@@/fish", "new"));
    const { stdout } = await pi.exec("cat", ["@@outside@@/key"]).catch((error: Error) => ({ stdout: error.message }));
    await attempt("program", () => stdout.includes("quoted-word"));
  });
