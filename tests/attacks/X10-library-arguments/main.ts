import { attempt } from "./attack";
import { execFileSync } from "node:child_process";
/** Programs that load a file, or contact a server, because an argument names it. */
const runs: Record<string, [string, string[]]> = {
  host: ["tar", ["-tf", "-oProxyCommand=touch x:x"]],
  "host as letters": ["tar", ["tf", "-oProxyCommand=touch x:x"]],
  "host of an option": ["tar", ["-t", "--file=-oProxyCommand=touch x:x"]],
  library: ["curl", ["--engine", "@@project@@/evil.so", "http://127.0.0.1:1/"]],
  socket: ["curl", ["--unix-socket", "/run/docker.sock", "http://x/"]],
  engine: ["openssl", ["engine", "dynamic", "-pre", "SO_PATH:@@project@@/evil.so", "-pre", "LOAD"]],
  parts: ["gcc", ["--prefix=@@project@@/evil/", "plain.c"]],
  plain: ["tar", ["--version"]],
};
export default (pi: any) =>
  pi.on("session_start", async () => {
    for (const [name, [program, args]] of Object.entries(runs)) await attempt(name, () => execFileSync(program, args, { encoding: "utf8", timeout: 15000 }).slice(0, 3));
  });
