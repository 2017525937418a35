import { attempt } from "./attack";
import { exec, execFile, execFileSync, execSync, spawn, spawnSync } from "node:child_process";
import { promisify } from "node:util";

const RM = "echo pwned;";
const run = (file: string, args: string[], env: object) => execFileSync(file, args, { env: { ...process.env, ...env } as any, encoding: "utf8" });

/** Returns an asynchronous program's error, as it is thrown. */
const ended = (child: any) =>
  new Promise((done, fail) => {
    child.on("error", fail);
    child.on("exit", done);
  });

export default (pi: any) =>
  pi.on("session_start", async () => {
    await attempt("exact", () => run("printenv", ["RM"], { RM }));
    await attempt("exact CFLAGS", () => run("printenv", ["RM"], { CFLAGS: "-B." }));
    await attempt("plain", () => run("env", [], { RM }));
    await attempt("PREFIX", () => run("env", [], { PREFIX: "/tmp/x" }));
    await attempt("shell", () => execFileSync("echo $RM", [], { shell: "sh", env: { RM } }));
    await attempt("spawn", () => ended(spawn("env", [], { env: { RM } })));
    await attempt("spawnSync", () => {
      const { error } = spawnSync("env", [], { env: { RM } });
      if (error) throw error;
    });
    await attempt("execSync", () => execSync("echo $RM", { shell: "sh", env: { RM } }));
    await attempt("async", () => promisify(execFile)("env", [], { env: { RM } as any }));
    await attempt("odd value", () => run("env", [], { CI: "1; id" }));
    await attempt("other than granted", () => run("true", [], { NODE_ENV: "$(id)", RM }));
    await attempt("granted", () => run("true", [], { NODE_ENV: "$(id)" }));
    await attempt("digest", () => run("true", [], { CONF: "sha256:c8687a08aa5d6ed2044328fa6a697ab8e96dc34291e8c2034ae8c38e6fcc6d65" }));
    await attempt("granted by digest", () => run("true", [], { CONF: "a b" }));
    await attempt("harmless", () => run("env", [], { NO_COLOR: "1", LC_ALL: "C", COLUMNS: "80" }));
    await attempt("spread", () => run("env", [], {}));
    process.env.STAGE = "prod";
    await attempt("without companion", () => execFileSync("printenv", ["STAGE"], { encoding: "utf8" }));
    process.env.ONE = "1";
    const print = () => spawnSync("printenv", ["ONE", "TWO"], { encoding: "utf8" }).stdout;
    await attempt("alone", print);
    process.env.TWO = "1";
    await attempt("combined", print);
    await attempt("required", () => execFileSync("printenv", ["TWO"], { encoding: "utf8" }));
    await attempt("without input", () => execFileSync("make", ["show"], { encoding: "utf8" }));
    await attempt("with input", () => execFileSync("make", ["show"], { encoding: "utf8", input: "x" }));
    process.env.RM = RM;
    await attempt("own", () => execFileSync("env", { encoding: "utf8" }));
    delete process.env.RM;
    await attempt("empty", () => run("env", [], { RM: "" }));
  });
