import zlib from "node:zlib";
import { Buffer } from "node:buffer";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { promisify } from "node:util";

const log = (...args) => console.log(...args);
const attempt = (call) => {
  try {
    log(call());
  } catch (error) {
    log(error.name, error.code, error.errno, error.message);
  }
};
const text = "All work and no play makes Jack a dull boy. ".repeat(5000);
const from = (hex) => Buffer.from(hex, "base64");

for (const [pack, unpack] of [["gzip", "gunzip"], ["deflate", "inflate"], ["deflateRaw", "inflateRaw"], ["brotliCompress", "brotliDecompress"], ["gzip", "unzip"], ["deflate", "unzip"]]) {
  const packed = zlib[`${pack}Sync`](text);
  log(pack, packed.length < 2000, zlib[`${unpack}Sync`](packed).toString() === text);
  const again = await promisify(zlib[unpack])(await promisify(zlib[pack])(Buffer.from("short")));
  log(unpack, again.toString());
  const create = (name) => zlib[`create${name[0].toUpperCase()}${name.slice(1)}`]();
  const out = [];
  await pipeline(Readable.from([Buffer.from(text.slice(0, 999)), Buffer.from(text.slice(999))]), create(pack), create(unpack), async (source) => {
    for await (const chunk of source) out.push(chunk);
  });
  log(Buffer.concat(out).toString() === text);
}
// Output of other programs
log(zlib.gunzipSync(from("H4sIAAAAAAAAA8tIzcnJVyjPL8pJAQCFEUoNCwAAAA==")).toString());
log(zlib.inflateSync(from("eJzLSM3JyVcozy/KSQEAGgsEXQ==")).toString());
log(zlib.brotliDecompressSync(from("CwWAaGVsbG8gd29ybGQD")).toString());
log(zlib.gzipSync("x", { level: 0 })[0], zlib.deflateSync("")[0], zlib.inflateSync(zlib.deflateSync("")).length);
// Several members, followed by other data
log(zlib.gunzipSync(Buffer.concat([zlib.gzipSync("one "), zlib.gzipSync("two")])).toString());
log(zlib.gunzipSync(Buffer.concat([zlib.gzipSync("one"), Buffer.from("\0\0junk")])).toString());
// Invalid input
attempt(() => zlib.gunzipSync(Buffer.from("not gzip")));
attempt(() => zlib.inflateSync(Buffer.from("not zlib")));
attempt(() => zlib.gunzipSync(zlib.gzipSync("cut off").subarray(0, 12)));
attempt(() => zlib.inflateSync(zlib.deflateSync("cut off").subarray(0, 5)));
attempt(() => zlib.inflateSync(zlib.deflateSync("cut off").subarray(0, 8), { finishFlush: zlib.constants.Z_SYNC_FLUSH }).length < 8);
attempt(() => { const bad = zlib.deflateSync("checksum"); bad[bad.length - 1] ^= 1; return zlib.inflateSync(bad); });
attempt(() => zlib.brotliDecompressSync(zlib.brotliCompressSync("cut off").subarray(0, 4)));
attempt(() => zlib.gunzipSync(zlib.gzipSync(text), { maxOutputLength: 1000 }));
attempt(() => zlib.gzipSync(5));
attempt(() => zlib.gzipSync("x", { level: 99 }));
attempt(() => zlib.deflateSync("x", { windowBits: 3 }));
zlib.gunzip(Buffer.from("nope"), (error, result) => log("callback", error.code, error.message, result));
await new Promise((resolve) => setTimeout(resolve, 1));
await pipeline(Readable.from([Buffer.from("nope")]), zlib.createGunzip(), async (source) => { for await (const _ of source); }).catch((error) => log(error.code, error.message));
// Dictionary, flush, options
const dictionary = Buffer.from("a dull boy");
const small = zlib.deflateSync("a dull boy again", { dictionary });
log(zlib.inflateSync(small, { dictionary }).toString());
attempt(() => zlib.inflateSync(small));
{
  const stream = zlib.createGzip();
  const first = new Promise((resolve) => stream.once("data", resolve));
  stream.write("flushed");
  stream.flush();
  log((await first).length > 0);
  stream.end();
  for await (const _ of stream);
  log(stream.bytesWritten, stream.destroyed);
}
log(zlib.brotliDecompressSync(zlib.brotliCompressSync(text, { params: { [zlib.constants.BROTLI_PARAM_QUALITY]: 3 } })).length === text.length);
log(zlib.crc32("hello"), zlib.crc32("lo", zlib.crc32("hel")), zlib.codes.Z_DATA_ERROR, zlib.codes["-3"], zlib.constants.Z_BEST_COMPRESSION);
{
  const packed = ReadableStream.from([new TextEncoder().encode(text)]).pipeThrough(new CompressionStream("gzip"));
  let got = "";
  for await (const piece of packed.pipeThrough(new DecompressionStream("gzip")).pipeThrough(new TextDecoderStream())) got += piece;
  log(got === text);
  try { new CompressionStream("rar"); } catch (error) { log(error.name, error.code); }
}

// Processes one chunk at a time, as archive libraries do.
{
  const steps = (stream, chunks) => {
    const handle = stream._handle;
    const pieces = chunks.map(([chunk, flush]) => {
      // The memory of a chunk is reused for the next one.
      const piece = Buffer.from(stream._processChunk(Buffer.from(chunk), flush));
      log(stream._handle === null, Buffer.isBuffer(piece));
      stream._handle = handle;
      return piece;
    });
    return Buffer.concat(pieces);
  };
  const { constants } = zlib;
  const gzip = new zlib.Gzip();
  gzip._handle.close = () => {};
  const packed = steps(gzip, [["some text, ", constants.Z_NO_FLUSH], ["some more text", constants.Z_NO_FLUSH], ["", constants.Z_FINISH]]);
  log(zlib.gunzipSync(packed).toString());
  const gunzip = new zlib.Gunzip();
  gunzip._handle.close = () => {};
  log(steps(gunzip, [[packed.subarray(0, 10), constants.Z_NO_FLUSH], [packed.subarray(10), constants.Z_NO_FLUSH], ["", constants.Z_FINISH]]).toString());
  const broken = new zlib.Gunzip();
  broken.on("error", () => {});
  try { broken._processChunk(Buffer.from("no gzip"), constants.Z_FINISH); } catch (error) { log(error.code, error.message); }
}
