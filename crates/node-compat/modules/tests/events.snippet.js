import EventEmitter, { on, once, errorMonitor } from "node:events";
import util from "node:util";
import assert from "node:assert";
import { setTimeout as wait, setInterval as every } from "node:timers/promises";

const attempt = (body) => { try { return body(); } catch (error) { return `${error.name} ${error.code}: ${error.message}`; } };
const emitter = new EventEmitter(); const log = [];
emitter.on("newListener", (name) => log.push(`new ${String(name)}`)); emitter.on("removeListener", (name) => log.push(`gone ${String(name)}`));
const a = (...args) => log.push("a", ...args); emitter.on("x", a); emitter.prependListener("x", () => log.push("first")); emitter.once("x", () => log.push("once")); emitter.prependOnceListener("x", () => log.push("once first"));
console.log(emitter.emit("x", 1, 2), emitter.emit("x"), emitter.emit("none"), emitter.listenerCount("x"), emitter.eventNames(), log.splice(0));
emitter.off("x", a); console.log(emitter.listenerCount("x"), log.splice(0)); emitter.on("self", function () { log.push(this === emitter); emitter.removeAllListeners("self"); }); emitter.on("self", () => log.push("second still runs")); emitter.emit("self"); console.log(log.splice(0), emitter.listenerCount("self"));
emitter.on(errorMonitor, (error) => log.push("monitor", error.message)); console.log(attempt(() => emitter.emit("error", new Error("boom"))), attempt(() => emitter.emit("error", { code: 1 })), log.splice(0)); emitter.on("error", (error) => log.push("handled", error.message)); console.log(emitter.emit("error", new Error("again")), log.splice(0));
console.log(attempt(() => emitter.on("x", 5)), emitter.getMaxListeners(), emitter.setMaxListeners(20).getMaxListeners(), EventEmitter.defaultMaxListeners, emitter.rawListeners("x").length);
setTimeout(() => emitter.emit("later", "v", 2), 1); console.log(await once(emitter, "later")); setTimeout(() => emitter.emit("error", new Error("rejects")), 1); console.log(await once(emitter, "never").catch((error) => error.message));
const ac = new AbortController(); setTimeout(() => ac.abort(), 1); console.log(await once(emitter, "never", { signal: ac.signal }).catch((error) => [error.name, error.code, error.message]));
const got = []; setTimeout(() => { emitter.emit("it", 1); emitter.emit("it", 2); emitter.emit("it", 3); }, 1); for await (const [value] of on(emitter, "it")) { got.push(value); if (value === 3) break; } console.log(got, emitter.listenerCount("it"));
const target = new EventTarget(); setTimeout(() => target.dispatchEvent(new Event("t")), 1); console.log((await once(target, "t"))[0].type);
function Old() { EventEmitter.call(this); } util.inherits(Old, EventEmitter); const old = new Old(); old.on("q", (v) => log.push(v)); old.emit("q", "old style"); console.log(log.splice(0), old instanceof EventEmitter, Old.super_ === EventEmitter);
class Mine extends EventEmitter { constructor() { super(); this.v = 1; } } const mine = new Mine(); mine.on("z", () => {}); console.log(mine.v, mine.listenerCount("z"), EventEmitter.listenerCount(mine, "z"), EventEmitter.EventEmitter === EventEmitter, EventEmitter.once === once);
const read = (ok, done) => setTimeout(() => (ok ? done(null, "value") : done(new Error("failed"))), 1); console.log(await util.promisify(read)(true), await util.promisify(read)(false).catch((error) => error.message)); await new Promise((resolve) => util.callbackify(async (x) => x * 2)(4, (error, value) => { console.log(error, value); resolve(); })); await new Promise((resolve) => util.callbackify(async () => { throw null; })((error) => { console.log(error.code, error.reason); resolve(); }));
console.log(await wait(1, "waited"), await wait(50, 0, { signal: AbortSignal.abort() }).catch((error) => [error.name, error.code])); let n = 0; for await (const v of every(1, "tick")) { n++; if (n === 3) break; } console.log(n);
for (const body of [() => assert.ok(1), () => assert.equal(1, "1"), () => assert.strictEqual(1, 2), () => assert.deepStrictEqual({ a: [1] }, { a: [1] }), () => assert.throws(() => { throw new TypeError("bad"); }, /bad/), () => assert.throws(() => { throw new TypeError("bad"); }, TypeError), () => assert.throws(() => { throw new TypeError("bad"); }, { message: "bad" }), () => assert.throws(() => {}), () => assert.fail("why"), () => assert.match("abc", /b/), () => assert.deepEqual([1], ["1"]), () => assert.notStrictEqual(1, 1)]) console.log(attempt(body));

// Listeners that reject
{
  const emitter = new EventEmitter({ captureRejections: true });
  emitter.on("work", async () => { throw new Error("late"); });
  emitter.on("error", (error) => console.log("error", error.message));
  emitter.emit("work");
  await new Promise((resolve) => setTimeout(resolve, 1));
  emitter[Symbol.for("nodejs.rejection")] = (error, name, ...args) => console.log("own", error.message, name, args);
  emitter.emit("work", 1, 2);
  await new Promise((resolve) => setTimeout(resolve, 1));
  try { emitter.setMaxListeners(-1); } catch (error) { console.log(error.code, error.message); }
}

// Traced operations
{
  const { channel, tracingChannel } = await import("node:diagnostics_channel");
  const traced = tracingChannel("work");
  console.log(traced.hasSubscribers, traced.start === channel("tracing:work:start"), traced.traceSync((a, b) => a + b, {}, undefined, 1, 2));
  const heard = Object.fromEntries(["start", "end", "asyncStart", "asyncEnd", "error"].map((part) => [part, (context) => console.log(part, JSON.stringify(context), context.error?.message)]));
  traced.subscribe(heard);
  console.log(traced.hasSubscribers, traced.traceSync(function (a) { return this.base + a; }, { name: "sync" }, { base: 1 }, 2));
  try { traced.traceSync(() => { throw new Error("no"); }, { name: "throws" }); } catch (error) { console.log(error.message); }
  console.log(await traced.tracePromise(async (a) => a * 2, { name: "promise" }, undefined, 4));
  await traced.tracePromise(async () => { throw new Error("rejected"); }, { name: "rejects" }).catch((error) => console.log(error.message));
  traced.traceCallback((a, done) => done(null, a), -1, { name: "callback" }, undefined, 5, (error, value) => console.log("called", error, value));
  traced.traceCallback((done) => done(new Error("failed")), 0, { name: "fails" }, undefined, (error) => console.log("called", error.message));
  console.log(traced.unsubscribe(heard), traced.unsubscribe(heard), traced.hasSubscribers);
}
// Pairs of names with one function each: a class that overrides both names (readable-stream 4) does not call itself
{
  const { on, addListener, off, removeListener } = EventEmitter.prototype;
  console.log(on === addListener, off === removeListener, on.name, off.name);
  const seen = [];
  class Own extends EventEmitter {
    on(name, listener) { seen.push(`on ${name}`); return EventEmitter.prototype.addListener.call(this, name, listener); }
    removeListener(name, listener) { seen.push(`off ${name}`); return EventEmitter.prototype.removeListener.call(this, name, listener); }
  }
  Object.assign(Own.prototype, { addListener: Own.prototype.on, off: Own.prototype.removeListener });
  const own = new Own();
  const heard = () => seen.push("heard");
  own.addListener("a", heard).once("a", heard).emit("a");
  own.off("a", heard).emit("a");
  console.log(seen);
}
