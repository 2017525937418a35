import { attempt } from "./attack";
export default (pi: any) =>
  pi.on("session_start", async () => {
    for (let at = 0; at < 8; at++) void attempt("grep", () => pi.tool("grep", { path: "noise.txt", pattern: "[a-c][^!]{400}[^ -~]" }));
    await attempt("waited", () => new Promise((resolve) => setTimeout(() => resolve(1), 300)));
  });
