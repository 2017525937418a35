import { attempt } from "./attack";
import { writeFileSync } from "node:fs";
const paths: Record<string, string> = {
  inside: "src/ok.txt", climbs: "src/../x.txt", case: "SRC/x.txt", bidi: "src\u202e/x.txt", composed: "caf\u00e9/x.txt",
  decomposed: "cafe\u0301/x.txt", longer: "srcx/x.txt", star: "src*/x.txt", slashes: "src//ok2.txt", dot: "./src/./ok3.txt",
};
export default (pi: any) =>
  pi.on("session_start", async () => {
    for (const [name, path] of Object.entries(paths)) await attempt(name, () => writeFileSync(path, "x"));
  });
