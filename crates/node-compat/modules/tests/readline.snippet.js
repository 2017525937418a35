import readline, { createInterface } from "node:readline";
import * as promises from "node:readline/promises";
import { PassThrough, Readable, Writable } from "node:stream";
import { once } from "node:events";
import { promisify } from "node:util";

const log = (...args) => console.log(...args);
const collect = async (input, options) => {
  const all = [];
  for await (const line of createInterface({ input, ...options })) all.push(line);
  return all;
};

log(await collect(Readable.from(["one\ntwo\r\n", "thr", "ee\n\nlast"])));
log(await collect(Readable.from([Buffer.from("grü"), Buffer.from([0xc3]), Buffer.from([0x9f]), Buffer.from("e\n")]), { crlfDelay: Infinity }));
log(await collect(Readable.from([])));
{
  const input = new PassThrough();
  const output = new PassThrough();
  const lines = createInterface({ input, output, prompt: "? " });
  const seen = [];
  for (const event of ["line", "pause", "resume", "close"]) lines.on(event, (...args) => seen.push([event, ...args]));
  lines.prompt();
  lines.question("name: ", (answer) => seen.push(["answer", answer]));
  input.write("me\nnext\n");
  await new Promise((resolve) => setTimeout(resolve, 1));
  lines.pause();
  lines.resume();
  lines.write("typed\n");
  lines.close();
  lines.close();
  log(seen, String(output.read()), lines.closed, lines.terminal, lines.getPrompt());
  try { lines.question("again", () => {}); } catch (error) { log(error.code, error.message); }
}
{
  const input = new PassThrough();
  const lines = promises.createInterface({ input });
  const answer = lines.question("q");
  input.write("promised\n");
  log(await answer);
  const controller = new AbortController();
  const stopped = lines.question("q", { signal: controller.signal }).catch((error) => log(error.name, error.code));
  controller.abort();
  await stopped;
  lines.close();
  await lines.question("q").catch((error) => log(error.code));
  const plain = createInterface({ input: new PassThrough().end("callback\n") });
  log(await promisify(plain.question).call(plain, "q"));
  const closing = createInterface({ input: Readable.from(["x"]) });
  await once(closing, "close");
  log("closed");
}
{
  const written = [];
  const target = new Writable({ decodeStrings: false, write: (text, _encoding, done) => { written.push(text); done(); } });
  readline.cursorTo(target, 3);
  readline.cursorTo(target, 3, 4);
  readline.moveCursor(target, -2, 5);
  readline.clearLine(target, 0);
  readline.clearLine(target, -1);
  readline.clearScreenDown(target);
  log(written);
  const batch = new promises.Readline(target);
  await batch.cursorTo(1).clearLine(1).commit();
  log(written.at(-1));
  try { new promises.Readline({}); } catch (error) { log(error.name, error.code); }
}
