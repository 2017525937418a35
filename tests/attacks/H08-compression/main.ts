import { attempt } from "./attack";
import { readFileSync } from "node:fs";
export default (pi: any) =>
  pi.on("session_start", async () => {
    const server = readFileSync("server", "utf8");
    for (const path of ["bomb", "around", "six"]) await attempt(path, async () => (await (await fetch(`${server}/${path}`)).arrayBuffer()).byteLength);
    await attempt("said", async () => {
      const failure = await fetch(`${server}/bomb`).then((answer) => answer.arrayBuffer()).catch((error) => error);
      return /has more than \d+ bytes/.test(failure.cause?.message);
    });
    await attempt("after", () => "it still runs");
  });
