import fs from "node:fs";
import { open, readFile } from "node:fs/promises";
import { Console } from "node:console";
import { execSync, spawnSync } from "node:child_process";
import { createInterface } from "node:readline";
import { PassThrough } from "node:stream";
import url from "node:url";
import { inspect, parseArgs, promisify, styleText } from "node:util";

const shape = (error) => [error?.name, error?.code, error?.syscall, error?.message].join("|");
const attempt = (call) => { try { log(call()); } catch (error) { log(shape(error)); } };

// Timers have their own promise forms
{
  log(await promisify(setTimeout)(1, "late"), await promisify(setImmediate)("soon"));
  const sleep = promisify(setTimeout);
  const order = [];
  await Promise.all([sleep(20).then(() => order.push("b")), sleep(1).then(() => order.push("a"))]);
  log(order, promisify(setTimeout) === (await import("node:timers/promises")).setTimeout);
}

// An error's stack is a plain property
{
  const error = new Error("plain");
  error.stack = undefined;
  log(error.stack, Object.hasOwn(error, "stack"), Object.keys(error));
  log(Object.assign(new Error("two"), { stack: null }).stack, Object.assign(new Error("three"), { stack: "text" }).stack);
  const bare = new TypeError("bare");
  bare.stack = bare.stack.split("\n")[0];
  log(String(bare.stack), inspect(bare));
}

// Errors of fs for invalid arguments and missing files
{
  for (const call of [() => readFile(""), () => readFile("a\0b"), () => open("", "r")]) log(await call().catch(shape));
  attempt(() => fs.readFileSync(""));
  attempt(() => fs.readFileSync(1.5));
  attempt(() => fs.readFile("x"));
  attempt(() => fs.stat("x", {}, 5));
  attempt(() => fs.lutimesSync("none", 1, 2));
  fs.mkdirSync("folder");
  await fs.promises.cp("folder", "other").catch((error) => log(shape(error), error.errno, error.path));
  fs.writeFileSync("one", "1");
  fs.writeFileSync("two", "2");
  attempt(() => fs.cpSync("one", "two", { errorOnExist: true, force: false }));
  const handle = await open("one");
  await handle.close();
  log(handle.fd, await handle.read().catch(shape), await handle.stat().catch(shape), await handle.write("x").catch(shape));
}

// Programs that exceed the output limit
{
  const { error, status, signal } = spawnSync("sh", ["-c", "while true; do echo more; done"], { maxBuffer: 100 });
  log(shape(error), error.errno, status, signal);
  attempt(() => execSync("while true; do echo more; done", { maxBuffer: 100, stdio: "pipe" }));
}

// Separate consoles, and styled text for a stream that is not a terminal
{
  const written = [];
  const sink = (name) => ({ write: (text) => written.push([name, text]), on() {}, once() {}, removeListener() {}, listenerCount: () => 0 });
  const own = new Console({ stdout: sink("out"), stderr: sink("err"), groupIndentation: 4 });
  own.log("a %d", 5, { b: 1 });
  own.group("group");
  own.warn("two\nlines");
  own.groupEnd();
  own.error("%s", "bad");
  own.table([{ a: 1 }]);
  new Console(sink("both")).error("there");
  log(written);
  attempt(() => new Console({ stdout: {} }));
  const plain = new PassThrough();
  const wide = Object.assign(new PassThrough(), { isTTY: true });
  log(JSON.stringify([styleText("red", "x"), styleText("red", "x", { stream: plain }), styleText("red", "x", { stream: wide }), styleText(["bold", "green"], "x", { validateStream: false })]));
  attempt(() => styleText("red", "x", { stream: {} }));
  attempt(() => styleText("nothing", "x", { validateStream: 1 }));
  log(process.stdout.isTTY, "isTTY" in process.stdout, process.stdout.columns);
}

// Small members
{
  log(url.urlToHttpOptions(new URL("http://a:b@c.d:9/e?f")), Buffer.alloc(0), Buffer.from("ab").inspect());
  attempt(() => Buffer.alloc(-1));
  attempt(() => parseArgs({ options: { a: { type: "text" } } }));
  const lines = createInterface({ input: new PassThrough() });
  lines.close();
  lines.prompt();
  const [warning] = await new Promise((resolve) => {
    process.once("warning", (...given) => resolve(given));
    process.emitWarning("careful", { type: "Own", code: "C1", detail: "more" });
  });
  log(warning.name, warning.code, warning.message, warning.detail);
}

// Dates with a locale that is selected for its number format, and sentences
{
  const date = new Date(Date.UTC(2026, 0, 2, 15, 4, 5));
  for (const locale of ["sv-SE", "en-CA", "en-GB", "de-DE", "fr-FR", "en-US"]) {
    const zone = { timeZone: "UTC" };
    log(locale, date.toLocaleDateString(locale, zone), date.toLocaleTimeString(locale, zone), date.toLocaleString(locale, zone));
    log(date.toLocaleDateString(locale, { ...zone, year: "numeric", month: "2-digit", day: "2-digit" }), date.toLocaleTimeString(locale, { ...zone, hour: "2-digit", minute: "2-digit" }));
    log(new Intl.DateTimeFormat(locale, { ...zone, dateStyle: "short" }).format(date));
  }
  const sentences = (text) => Array.from(new Intl.Segmenter("en", { granularity: "sentence" }).segment(text), (part) => part.segment);
  log(sentences("One. Two? Three!"), sentences("It costs 3.14 dollars. \"Really?\" he said. Done"), sentences("line one\nline two. End."), sentences(""), sentences("Wait... what?! Yes."));
}

// Bytes from programs, copies into missing folders, and signals that have already fired
{
  log(spawnSync("cat", { input: Buffer.from([0, 255, 128]) }).stdout, execSync("printf '\\377'"), execSync("printf '\\351'", { encoding: "latin1" }));
  await fs.promises.cp("one", "new/folder/one");
  fs.cpSync("one", "newer/one");
  log(fs.readFileSync("new/folder/one", "utf8"), fs.existsSync("newer/one"));
  await fs.promises.cp("none", "newest/none").catch((error) => log(shape(error), fs.existsSync("newest")));
  const controller = new AbortController();
  controller.abort(new Error("stop"));
  const { signal } = controller;
  const told = (error) => [error.name, error.code, error.message, error.cause?.message];
  log(await readFile("one", { signal }).catch(told), await fs.promises.writeFile("two", "3", { signal }).catch(told));
  log(await new Promise((resolve) => fs.readFile("one", { signal }, (error) => resolve(told(error)))));
  const { addAbortListener } = await import("node:events");
  addAbortListener(signal, () => log("it had fired"));
  log("first");
  await null;
}
