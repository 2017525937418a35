import { ChildProcess, exec, execFile, execFileSync, execSync, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { existsSync, statSync } from "node:fs";
import { Readable, Writable } from "node:stream";
import { text } from "node:stream/consumers";
import { pipeline } from "node:stream/promises";
import { promisify } from "node:util";

const shape = (error) => [error.name, error.code, error.syscall, error.path, error.message].join("|");

// Output, exit and order of events
{
  const child = spawn("sh", ["-c", "echo out; echo err >&2; exit 3"]);
  log(typeof child.pid, child.pid > 0, child.exitCode, child.killed, child.spawnfile, child.spawnargs, child instanceof ChildProcess);
  log(child.stdout instanceof Readable, child.stdin instanceof Writable, child.stdio.length);
  const events = [];
  for (const name of ["spawn", "exit", "close"]) child.on(name, (...args) => events.push([name, ...args]));
  const [out, err] = await Promise.all([text(child.stdout), text(child.stderr)]);
  await (child.exitCode === null ? once(child, "close") : Promise.resolve());
  log([out, err], child.exitCode, child.signalCode);
  log(events.map(([name, ...args]) => `${name} ${args.join(" ")}`));
}
// Live input
{
  const child = spawn("cat");
  const seen = [];
  child.stdout.setEncoding("utf8");
  child.stdin.write("first\n");
  seen.push((await once(child.stdout, "data"))[0]);
  child.stdin.write("second\n");
  seen.push((await once(child.stdout, "data"))[0]);
  child.stdin.end("last");
  child.stdout.on("data", (data) => seen.push(data));
  await once(child, "close");
  log(seen, child.exitCode);
}
{
  const child = spawn("wc", ["-c"]);
  await pipeline(Readable.from([Buffer.alloc(300_000, "x"), Buffer.alloc(1, "y")]), child.stdin);
  log((await text(child.stdout)).trim());
}
{
  const child = spawn("sh", ["-c", "read line; echo got $line; read line; echo then $line"]);
  child.stdin.on("error", () => {});
  child.stdin.write("a\n");
  const lines = [];
  for await (const chunk of child.stdout) {
    lines.push(String(chunk).trim());
    if (lines.length === 1) child.stdin.write("b\n");
    if (lines.length === 2) break;
  }
  log(lines);
}
// Terminations other than exits
{
  const child = spawn("sleep", ["30"]);
  log(child.kill(), child.killed);
  log(await once(child, "exit"), child.signalCode, child.kill());
  const other = spawn("sleep", ["30"]);
  other.kill("SIGKILL");
  log(await once(other, "close"));
  const trapped = spawn("sh", ["-c", "trap 'echo caught; exit 5' USR1; echo ready; while true; do sleep 0.05; done"]);
  await once(trapped.stdout, "data");
  trapped.kill("SIGUSR1");
  log(await text(trapped.stdout), trapped.exitCode ?? (await once(trapped, "close"))[0]);
  try { trapped.kill("SIGNOPE"); } catch (error) { log(error.code, error.message); }
  const controller = new AbortController();
  const aborted = spawn("sleep", ["30"], { signal: controller.signal });
  const failed = once(aborted, "error").catch((error) => [error]);
  const closed = once(aborted, "close").catch(() => []);
  controller.abort();
  const [error] = await failed;
  log(error.name, error.code);
  const limited = spawn("sleep", ["30"], { timeout: 50 });
  log(await once(limited, "close"));
}
// Programs that do not exist
{
  const child = spawn("no-such-program", ["x"]);
  log(child.pid);
  const closed = new Promise((resolve) => child.on("close", (...args) => resolve(args)));
  const [error] = await once(child, "error");
  log(shape(error), error.errno, error.spawnargs);
  log(await closed);
  const missing = spawnSync("no-such-program");
  log(missing.status, missing.error.code, missing.error.syscall, missing.pid, missing.stdout);
  for (const call of [() => spawn(""), () => spawn(5), () => spawn("x", "y"), () => execSync(7)]) {
    try { call(); log("no error"); } catch (error) { log(error.name, error.code, error.message); }
  }
}
// Collected output
{
  const { stdout, stderr } = await promisify(exec)("echo one; echo two >&2");
  log([stdout, stderr]);
  log(await promisify(execFile)("printf", ["%s", "a b"]));
  const failure = await promisify(exec)("echo partial; exit 4").catch((error) => error);
  log(failure.code, failure.killed, failure.signal, failure.cmd, failure.stdout, failure.message);
  const big = await promisify(exec)("yes | head -c 5000", { maxBuffer: 100 }).catch((error) => error);
  log(big.code, big.message, big.stdout.length);
  const slow = await promisify(exec)("sleep 30", { timeout: 50 }).catch((error) => error);
  log(slow.killed, slow.signal, slow.code);
  await new Promise((resolve) => execFile("no-such-program", (error, out, err) => { log(error.code, error.path, [out, err]); resolve(); }));
  await new Promise((resolve) => exec("printf '\\377'", { encoding: "buffer" }, (error, out) => { log(error, out); resolve(); }));
  await new Promise((resolve) => execFile("cat", ["-"], (error, out) => { log(out); resolve(); }).stdin.end("fed"));
}
// Synchronous forms
{
  log(execSync("echo hi").toString(), execFileSync("echo", ["a b"], { encoding: "utf8" }));
  log(execSync("cat", { input: "given", encoding: "utf8" }));
  const done = spawnSync("sh", ["-c", "echo o; echo e >&2; exit 2"], { encoding: "utf8" });
  log(done.status, done.signal, done.stdout, done.stderr, done.output, done.error);
  try { execSync("exit 6", { stdio: "pipe" }); } catch (error) { log(error.status, error.message); }
  try { execFileSync("sh", ["-c", "echo bad >&2; exit 1"], { stdio: "pipe" }); } catch (error) { log(error.status, String(error.stderr), error.message); }
  const late = spawnSync("sleep", ["30"], { timeout: 50 });
  log(late.status, late.signal, late.error?.code);
  log(spawnSync("sh", ["-c", "kill -9 $$"]).signal);
  log(execSync("echo $GIVEN", { env: { GIVEN: "value", PATH: "/usr/bin:/bin" }, encoding: "utf8" }), spawnSync("echo $((1+1))", { shell: true, encoding: "utf8" }).stdout);
}
// Targets of output
{
  const quiet = spawn("sh", ["-c", "echo lost"], { stdio: "ignore" });
  log(quiet.stdin, quiet.stdout, quiet.stderr, await once(quiet, "close"));
  const mixed = spawn("sh", ["-c", "echo kept; echo gone >&2"], { stdio: ["ignore", "pipe", "ignore"] });
  log(mixed.stdin, await text(mixed.stdout), mixed.stderr);
  const unread = spawn("sh", ["-c", "echo nobody reads; exit 9"]);
  log(await once(unread, "close"));
}
// By process id
{
  const kill = (...args) => { try { return process.kill(...args); } catch (error) { return `${error.code} ${error.errno} ${error.syscall} ${error.message}`; } };
  const one = spawn("sleep", ["30"]);
  log(kill(one.pid, 0), kill(one.pid, "SIGINT"));
  log(await once(one, "close"), kill(one.pid), kill(one.pid, 0));
  const group = spawn("sh", ["-c", "sleep 30 & echo $!; wait"], { detached: true });
  // The child of the program holds its output open: only the exit of both closes it.
  await once(group.stdout, "data");
  log(kill(-group.pid, "SIGKILL"), await once(group, "close"));
  for (const wrong of [["x"], [1.5], [process.pid, "SIGNOPE"]]) log(kill(...wrong));
  // Ids of other processes; the last one exceeds the maximum on Linux.
  log(kill(process.pid, 0), kill(process.ppid, 0), kill(2 ** 22 + 1, 0));
  // A grant to run a program reveals that it exists, through any link.
  log(existsSync("/bin/sh"), statSync("/usr/bin/env").isFile(), existsSync("/usr/bin/no-such-program"));
}
// Programs that failed to start
{
  const none = spawn("no-such-program", ["a"]);
  const heard = [];
  log(none.pid, [none.stdin, none.stdout, none.stderr].map((stream) => typeof stream?.on), none.exitCode, none.kill());
  none.stdin.on("error", () => {});
  none.stdin.write("lost");
  none.on("spawn", () => heard.push("spawn")).on("exit", () => heard.push("exit"));
  none.on("error", (error) => heard.push(`${error.code} ${error.syscall} ${none.exitCode}`)).on("close", (...args) => heard.push(args));
  none.stdout.resume().on("end", () => heard.push("end"));
  await new Promise((resolve) => setTimeout(resolve, 100));
  log(heard.filter((one) => one !== "end"), none.stdin.destroyed);
}
// Members of the error about a finished program: only a rejected promise has its output
{
  const { exec, execFile } = await import("node:child_process");
  const { promisify } = await import("node:util");
  const shown = (error) => [error.message, error.code, error.signal, error.killed, error.cmd, error.stdout, error.stderr, Object.keys(error).sort().join()];
  log(await new Promise((resolve) => exec("echo out; echo err >&2; exit 3", (error, stdout, stderr) => resolve([...shown(error), stdout, stderr]))));
  log(await new Promise((resolve) => execFile("no-such-program", ["a"], (error) => resolve(shown(error)))));
  await promisify(exec)("echo out; echo err >&2; exit 3").catch((error) => log(shown(error)));
}
