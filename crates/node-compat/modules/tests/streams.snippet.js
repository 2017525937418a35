import stream, { Duplex, PassThrough, Readable, Transform, Writable, addAbortSignal, finished, pipeline } from "node:stream";
import { pipeline as piped, finished as over } from "node:stream/promises";
import { arrayBuffer, json, text } from "node:stream/consumers";
import { Buffer } from "node:buffer";
import { EventEmitter } from "node:events";
import { inherits, promisify } from "node:util";

const log = (...args) => console.log(...args);
const tick = () => new Promise((resolve) => setTimeout(resolve, 1));
const trace = (name, target, events) => {
  for (const event of events) target.on(event, (...args) => log(name, event, ...args.map((arg) => (arg instanceof Error ? `${arg.name} ${arg.code} ${arg.message}` : Buffer.isBuffer(arg) ? `<${arg}>` : typeof arg))));
};

// Reading in three ways
{
  const source = new Readable({ read() {} });
  trace("read", source, ["data", "end", "close", "pause", "resume"]);
  source.push("one");
  source.push("two");
  log(source.readableLength, source.readableFlowing, source.readable);
  source.push(null);
  await over(source);
  log(source.readableEnded, source.destroyed, source.readable, source.closed);
  log(source.push("late"));
}
{
  const source = Readable.from(["a", "b", "c"]);
  source.on("readable", () => {
    let chunk;
    while ((chunk = source.read()) !== null) log("readable", chunk);
  });
  await over(source);
}
{
  const all = [];
  for await (const chunk of Readable.from([1, 2, 3, 4], { highWaterMark: 2 })) all.push(chunk);
  log(all);
  const source = Readable.from([1, 2, 3]);
  for await (const chunk of source) if (chunk === 2) break;
  log(source.destroyed);
}
{
  const source = new Readable({ encoding: "utf8", read() {} });
  source.push(Buffer.from([0xe2, 0x82]));
  source.push(Buffer.from([0xac]));
  source.push(null);
  log(await text(source));
  const sized = Readable.from(Buffer.from("abcdef"), { objectMode: false });
  await tick();
  sized.on("readable", () => {});
  await tick();
  log(String(sized.read(2)), String(sized.read(3)), sized.read(5) && "rest", String(sized.read()));
  const back = new Readable({ read() {} });
  back.push("world");
  back.unshift("hello ");
  back.push(null);
  log(await text(back));
}
// Errors
{
  const source = new Readable({ read() { this.destroy(new Error("broken")); } });
  trace("fail", source, ["error", "close"]);
  source.resume();
  await tick();
  log(source.errored?.message, source.destroyed);
  const bad = new Readable({ read() {} });
  bad.on("error", (error) => log(error.code, error.message));
  bad.push(5);
  const none = new Readable();
  none.on("error", (error) => log(error.code, error.message));
  none.read();
  const ended = new Readable({ read() {} });
  ended.on("error", (error) => log(error.code, error.message));
  ended.push(null);
  ended.push("x");
  await tick();
}
// Writing
{
  const seen = [];
  const sink = new Writable({
    highWaterMark: 3,
    write(chunk, encoding, done) {
      seen.push([chunk.toString(), encoding]);
      setTimeout(done, 1);
    },
    final(done) {
      log("final");
      done();
    },
  });
  trace("write", sink, ["drain", "finish", "close", "pipe", "unpipe"]);
  log(sink.write("ab"), sink.write("cd", "utf8", () => log("written")), sink.writableLength, sink.writableNeedDrain);
  sink.end("ef", () => log("ended"));
  log(sink.writableEnded, sink.writableFinished);
  await over(sink);
  log(seen, sink.writableFinished, sink.destroyed);
  sink.on("error", (error) => log(error.code, error.message));
  sink.write("more", (error) => log("callback", error.code));
  await tick();
}
{
  const sink = new Writable({ write(chunk, encoding, done) { done(new Error("disk full")); } });
  trace("sink", sink, ["error", "finish", "close"]);
  sink.write("x", (error) => log("callback", error.message));
  sink.write("y", (error) => log("second", error.message));
  await tick();
  const many = new Writable({ writev(chunks, done) { log(chunks.map(({ chunk }) => String(chunk))); done(); } });
  many.cork();
  many.write("1");
  many.write("2");
  many.write("3");
  many.uncork();
  many.end();
  await over(many);
  for (const make of [() => new Writable().write(null), () => new Writable().write(7), () => new Writable({ write() {} }).write("x", "nope")]) {
    try { make(); } catch (error) { log(error.name, error.code, error.message); }
  }
  const gone = new Writable({ write() {} });
  gone.on("error", (error) => log(error.code));
  gone.destroy();
  gone.write("x", (error) => log(error.code, error.message));
  await tick();
}
// Transform, pipe, pipeline
{
  const upper = new Transform({ transform(chunk, _encoding, done) { done(null, String(chunk).toUpperCase()); }, flush(done) { this.push("!"); done(); } });
  log(await text(Readable.from(["a", "b"]).pipe(upper)));
  const slow = new Writable({ highWaterMark: 2, objectMode: true, write(chunk, _encoding, done) { setTimeout(done, 1); } });
  let pauses = 0;
  const source = Readable.from(Array.from({ length: 10 }, (_, at) => at));
  source.on("pause", () => pauses++);
  source.pipe(slow);
  await over(slow);
  log(pauses > 0, source.destroyed);
  const numbers = Readable.from([1, 2, 3]);
  const out = [];
  const value = await piped(numbers, async function* (input) { for await (const n of input) yield n * 2; }, async (input) => { for await (const n of input) out.push(n); return "value"; });
  log(out, value);
  await piped(["x", "y"], new PassThrough(), async function (input) { for await (const chunk of input) log(String(chunk)); });
  const failing = new Transform({ transform(_chunk, _encoding, done) { done(new TypeError("no")); } });
  const first = Readable.from(["a"]);
  await piped(first, failing, new PassThrough()).catch((error) => log(error.name, error.message, first.destroyed, failing.destroyed));
  pipeline(Readable.from(["q"]), new PassThrough(), (error) => log("callback", error));
  await tick();
  const early = new PassThrough();
  const waiting = piped(new Readable({ read() {} }), early).catch((error) => log(error.code, error.message));
  early.destroy();
  await waiting;
  const controller = new AbortController();
  const stuck = piped(new Readable({ read() {} }), new PassThrough(), { signal: controller.signal }).catch((error) => log(error.name, error.code));
  controller.abort();
  await stuck;
  const aborted = addAbortSignal(AbortSignal.abort(), new Readable({ read() {} }));
  await over(aborted).catch((error) => log(error.name, error.code));
  try { pipeline(first, () => {}); } catch (error) { log(error.code, error.message); }
  await promisify(finished)(Readable.from([]).resume());
  log("promisified");
}
// Duplex and its halves
{
  const duplex = new Duplex({ read() { this.push("out"); this.push(null); }, write(chunk, _encoding, done) { log("in", String(chunk)); done(); } });
  duplex.end("given");
  log(await text(duplex));
  await tick();
  log(duplex.destroyed, duplex instanceof Writable, duplex instanceof Readable, duplex instanceof stream, duplex instanceof EventEmitter);
  const halfless = new Duplex({ allowHalfOpen: false, read() { this.push(null); }, write(_chunk, _encoding, done) { done(); } });
  halfless.on("finish", () => log("finish by end"));
  halfless.resume();
  await tick();
  const made = Duplex.from(async function* (source) { for await (const chunk of source) yield `<${chunk}>`; });
  made.end("made");
  log(await made.toArray().then((all) => all.map(String)));
}
// Old style
{
  function Mine(options) { Readable.call(this, options); this.left = 2; }
  inherits(Mine, Readable);
  Mine.prototype._read = function () { this.push(this.left-- > 0 ? `${this.left}` : null); };
  log(await text(new Mine()), new Mine() instanceof Readable);
  class Sub extends Transform { _transform(chunk, _encoding, done) { this.push(`${chunk}${chunk}`); done(); } }
  log(await text(Readable.from(["z"]).pipe(new Sub())), stream.Readable === Readable, typeof stream.Stream);
  const constructed = new Writable({ construct(done) { log("construct"); setTimeout(done, 1); }, write(chunk, _encoding, done) { log("after", String(chunk)); done(); } });
  constructed.end("c");
  await over(constructed);
  const old = new EventEmitter();
  const wrapped = new Readable().wrap(old);
  old.emit("data", Buffer.from("wrapped"));
  old.emit("end");
  log(await text(wrapped));
}
// Helpers
{
  log(await Readable.from([1, 2, 3, 4]).filter((n) => n % 2 === 0).map((n) => n * 10).toArray());
  log(await Readable.from([1, 2, 3]).reduce((sum, n) => sum + n, 0), await Readable.from([1, 2]).some((n) => n > 1), await Readable.from([1, 2]).every((n) => n > 1));
  log(await Readable.from([1, 2, 3]).find((n) => n > 1), await Readable.from([1, 2, 3, 4]).drop(1).take(2).toArray(), await Readable.from([1, 2]).flatMap((n) => [n, n]).toArray());
  log(await json(Readable.from(['{"a"', ":1}"])), (await arrayBuffer(Readable.from([Buffer.from("abc")]))).byteLength);
  log(stream.getDefaultHighWaterMark(true), stream.isReadable(new PassThrough()), stream.isErrored(new PassThrough()), stream.isDisturbed(new PassThrough()));
  log(new Readable({ objectMode: true }).readableHighWaterMark, new Writable({ highWaterMark: 5 }).writableHighWaterMark);
  try { new Readable({ highWaterMark: -1 }); } catch (error) { log(error.code, error.message); }
  log(Object.keys(stream).filter((name) => !name.startsWith("_")).slice(0, 4).length, typeof stream.promises.pipeline);
}
// `once` starts the flow, as `on` does
{
  const source = new Readable({ read() {} });
  source.setEncoding("utf8");
  setTimeout(() => source.push("later"), 1);
  log(await new Promise((resolve) => source.once("data", resolve)), source.readableFlowing);
}
// Pairs of names for one function, of a stream
{
  const { on, addListener, off, removeListener } = Readable.prototype;
  log(on === addListener, off === removeListener);
  class Own extends Readable {
    on(name, listener) { return super.addListener(name, listener); }
    removeListener(name, listener) { return super.off(name, listener); }
  }
  const own = new Own({ read() {} });
  const heard = () => log("heard");
  log(own.on("pause", heard).listenerCount("pause"), own.removeListener("pause", heard).listenerCount("pause"));
}
