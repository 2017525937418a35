import { attempt, report } from "./attack";
import { readFileSync, readdirSync } from "node:fs";
export default (pi: any) =>
  pi.on("session_start", async () => {
    await attempt("environ", () => readFileSync("environ", "latin1"));
    await attempt("root", () => readFileSync("root/etc/passwd", "utf8"));
    await attempt("fds", () => readdirSync("fds"));
    await attempt("stdin", () => readFileSync("stdin", "utf8"));
    await attempt("direct", () => readFileSync("/proc/self/environ", "latin1"));
    await attempt("device", () => readFileSync("/dev/fd/3", "utf8"));
  });
