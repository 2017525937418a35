import { Readable, Writable } from "node:stream";
import { TransformStream as Same } from "node:stream/web";

const log = (...args) => console.log(...args);
const describe = (error) => `${error.name} ${error.code} ${error.message}`;
const tick = () => new Promise((resolve) => setTimeout(resolve, 1));

{
  const source = new ReadableStream({ start(controller) { controller.enqueue("a"); controller.enqueue("b"); controller.close(); } });
  const reader = source.getReader();
  log(source.locked, await reader.read(), await reader.read(), await reader.read());
  await reader.closed;
  reader.releaseLock();
  log(source.locked, source);
  try { new ReadableStream().getReader(); source.getReader(); log("free"); } catch (error) { log(describe(error)); }
}
{
  let pulled = 0;
  const source = new ReadableStream({ pull(controller) { pulled++; controller.enqueue(pulled); if (pulled === 4) controller.close(); } }, { highWaterMark: 2 });
  await tick();
  log("pulled", pulled);
  const all = [];
  for await (const chunk of source) all.push(chunk);
  log(all);
}
{
  let cancelled;
  const source = new ReadableStream({ start(controller) { controller.enqueue(1); controller.enqueue(2); }, cancel(reason) { cancelled = reason; } });
  for await (const chunk of source) { log(chunk); break; }
  log(cancelled, source.locked);
  const other = new ReadableStream({ cancel(reason) { log("cancel", reason); } });
  await other.cancel("enough");
  const failing = new ReadableStream({ pull() { throw new RangeError("pull failed"); } });
  await failing.getReader().read().catch((error) => log(describe(error)));
  const locked = new ReadableStream();
  locked.getReader();
  await locked.cancel().catch((error) => log(describe(error)));
  try { locked.getReader(); } catch (error) { log(describe(error)); }
}
{
  const [one, two] = ReadableStream.from(["x", "y", "z"]).tee();
  const [left, right] = await Promise.all([Array.fromAsync ? collect(one) : collect(one), collect(two)]);
  log(left, right);
  const [kept, dropped] = new ReadableStream({ start(controller) { controller.enqueue(1); controller.close(); }, cancel(reasons) { log("both", reasons); } }).tee();
  void dropped.cancel("no");
  log(await collect(kept));
}
async function collect(stream) {
  const all = [];
  for await (const chunk of stream) all.push(chunk);
  return all;
}
{
  const seen = [];
  const sink = new WritableStream({ write(chunk) { seen.push(chunk); }, close() { seen.push("closed"); } }, new CountQueuingStrategy({ highWaterMark: 2 }));
  const writer = sink.getWriter();
  log(writer.desiredSize, sink.locked);
  void writer.write(1);
  void writer.write(2);
  log(writer.desiredSize);
  await writer.ready;
  await writer.close();
  log(seen, await writer.closed, writer.desiredSize);
  await writer.write(3).catch((error) => log(describe(error)));
  const broken = new WritableStream({ write() { throw new Error("sink broke"); } }).getWriter();
  await broken.write("x").catch((error) => log(describe(error)));
  await broken.write("y").catch((error) => log(describe(error)));
  await broken.closed.catch((error) => log("closed", describe(error)));
  const stopped = new WritableStream({ abort(reason) { log("abort", reason); } }).getWriter();
  await stopped.abort("why");
  await stopped.closed.catch((error) => log("closed", error));
}
{
  const upper = new TransformStream({ transform(chunk, controller) { controller.enqueue(chunk.toUpperCase()); }, flush(controller) { controller.enqueue("!"); } });
  log(await collect(ReadableStream.from(["a", "b"]).pipeThrough(upper)), Same === TransformStream);
  log(await collect(ReadableStream.from(["grü", "ße 🦀"]).pipeThrough(new TextEncoderStream()).pipeThrough(new TextDecoderStream())));
  const bytes = new TextEncoder().encode("€uro");
  log(await collect(ReadableStream.from([bytes.slice(0, 1), bytes.slice(1, 2), bytes.slice(2)]).pipeThrough(new TextDecoderStream())));
  const failing = new TransformStream({ transform() { throw new SyntaxError("bad chunk"); } });
  await collect(ReadableStream.from(["a"]).pipeThrough(failing)).catch((error) => log(describe(error)));
  const ended = new TransformStream({ transform(chunk, controller) { controller.enqueue(chunk); controller.terminate(); } });
  log(await collect(ReadableStream.from(["kept", "lost"]).pipeThrough(ended)));
  const written = [];
  await ReadableStream.from([1, 2, 3]).pipeTo(new WritableStream({ write(chunk) { written.push(chunk); } }));
  log(written);
  const source = new ReadableStream({ start(controller) { controller.error(new Error("source failed")); } });
  await source.pipeTo(new WritableStream({ abort(reason) { log("target aborted", reason.message); } })).catch((error) => log(describe(error)));
  const controller = new AbortController();
  const endless = new ReadableStream({ pull(inner) { inner.enqueue("."); }, cancel(reason) { log("source cancelled", reason.name); } });
  const running = endless.pipeTo(new WritableStream({ write: () => tick() }), { signal: controller.signal }).catch((error) => log(error.name));
  await tick();
  controller.abort();
  await running;
}
{
  const source = new ReadableStream({ type: "bytes", start(controller) { controller.enqueue(new Uint8Array([1, 2, 3, 4, 5])); controller.close(); } });
  const reader = source.getReader({ mode: "byob" });
  log(await reader.read(new Uint8Array(3)), await reader.read(new Uint8Array(3)), (await reader.read(new Uint8Array(3))).done);
  log(new ByteLengthQueuingStrategy({ highWaterMark: 4 }).size(new Uint8Array(3)), new CountQueuingStrategy({ highWaterMark: 1 }).size("xx"));
}
{
  const web = Readable.toWeb(Readable.from(["n", "w"]));
  log(await collect(web));
  const node = Readable.fromWeb(ReadableStream.from(["w", "n"]), { encoding: "utf8" });
  log(await node.toArray());
  const seen = [];
  const writer = Writable.toWeb(new Writable({ objectMode: true, write(chunk, _encoding, done) { seen.push(String(chunk)); done(); } })).getWriter();
  await writer.write("to web");
  await writer.close();
  const target = Writable.fromWeb(new WritableStream({ write(chunk) { seen.push(new TextDecoder().decode(chunk)); } }));
  await new Promise((resolve) => target.end("from web", resolve));
  log(seen);
}
{
  const streamed = () => ReadableStream.from(["one ", "two"].map((text) => new TextEncoder().encode(text)));
  log(await new Response(streamed()).text(), await new Response("text").body.getReader().read().then(({ value }) => new TextDecoder().decode(value)));
  const response = new Response(streamed());
  const copy = response.clone();
  log(await copy.text(), response.bodyUsed, copy.bodyUsed, await collect(response.body.pipeThrough(new TextDecoderStream())), response.bodyUsed);
  await response.text().catch((error) => log(describe(error)));
  await copy.text().catch((error) => log(describe(error)));
  const half = new Response(streamed());
  half.body.getReader();
  await half.text().catch((error) => log(describe(error)));
  log(new Response(null).body, new Response().bodyUsed, (await new Response(streamed()).blob()).size, (await new Response(new Blob(["blob"])).arrayBuffer()).byteLength);
  try { new Request("http://x/", { method: "POST", body: streamed() }); } catch (error) { log(error.name); }
  const request = new Request("http://x/", { method: "POST", body: streamed(), duplex: "half" });
  log(await request.clone().text(), await request.text(), request.bodyUsed);
  log((await collect(new Blob(["as a ", "stream"]).stream().pipeThrough(new TextDecoderStream()))).join(""));
  const form = new FormData();
  form.append("a", "1");
  form.append("a", "2");
  form.append("file", new File(["content\r\nlines"], "name.txt", { type: "text/css" }));
  const read = await new Response(form).formData();
  log(read.getAll("a"), read.get("file").name, read.get("file").type, await read.get("file").text());
  log([...(await new Response(new URLSearchParams("x=1&y=2")).formData())]);
  await new Response("plain").formData().catch((error) => log(error.name));
}
