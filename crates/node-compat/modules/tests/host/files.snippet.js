import fs, { createReadStream, createWriteStream } from "node:fs";
import { open, opendir, readFile, rm, stat, watch, writeFile } from "node:fs/promises";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { Readable } from "node:stream";
import { text } from "node:stream/consumers";
import { finished, pipeline } from "node:stream/promises";
import { createGzip, createGunzip } from "node:zlib";
import { createHash } from "node:crypto";

const shape = (error) => [error.name, error.code, error.syscall, error.path && "path", error.message.replace(process.cwd(), "")].join("|");
const big = "0123456789".repeat(20_000);

// Streams
{
  const out = createWriteStream("big.txt");
  const events = [];
  for (const name of ["open", "ready", "finish", "close"]) out.on(name, () => events.push(name));
  log(out.pending, out.path, out.bytesWritten, out.writableHighWaterMark);
  for (let at = 0; at < 4; at++) if (!out.write(big.slice(at * 50_000, (at + 1) * 50_000))) await once(out, "drain");
  out.end();
  await finished(out);
  log(out.bytesWritten, fs.readFileSync("big.txt", "utf8") === big, out.closed, out.fd);
  await new Promise((resolve) => setTimeout(resolve, 5));
  log(events);
  const source = createReadStream("big.txt");
  const sizes = [];
  source.on("data", (chunk) => sizes.push(chunk.length));
  await once(source, "close");
  log(sizes, source.bytesRead, source.destroyed, source.closed);
  log(await text(createReadStream("big.txt", { start: 3, end: 12, encoding: "utf8" })), await text(createReadStream("big.txt", { start: 199_995 })));
  log((await createReadStream("big.txt", { highWaterMark: 40_000 }).map((chunk) => chunk.length).toArray()));
  createWriteStream("more.txt").end("one\n");
  await new Promise((resolve) => setTimeout(resolve, 20));
  await finished(createWriteStream("more.txt", { flags: "a" }).end("two\n"));
  await finished(createWriteStream("more.txt", { flags: "r+", start: 4 }).end("TWO"));
  log(fs.readFileSync("more.txt", "utf8"));
  const missing = createReadStream("none.txt");
  const [error] = await once(missing, "error");
  log(shape(error), missing.destroyed);
  await once(createWriteStream("no/such/folder.txt"), "error").then(([failure]) => log(shape(failure)));
  for (const call of [() => createReadStream("x", { start: "1" }), () => createReadStream("x", { start: 5, end: 2 }), () => createReadStream(5), () => createWriteStream("x", { start: -1 })]) {
    try { call(); } catch (failure) { log(failure.name, failure.code); }
  }
  await pipeline(createReadStream("big.txt"), createGzip(), createWriteStream("big.gz"));
  await pipeline(createReadStream("big.gz"), createGunzip(), createWriteStream("back.txt"));
  log(fs.statSync("big.gz").size < 5000, fs.readFileSync("back.txt", "utf8") === big);
  const digest = createHash("sha256");
  await pipeline(createReadStream("big.txt"), digest);
  log(digest.digest("hex"));
  const cut = createReadStream("big.txt");
  for await (const chunk of cut) { log(chunk.length); break; }
  log(cut.destroyed);
  log(createReadStream("big.txt") instanceof fs.ReadStream, createReadStream("big.txt") instanceof Readable);
}
// Lines
{
  fs.writeFileSync("lines.txt", "first\nsecond\r\n\nlast");
  const lines = [];
  for await (const line of createInterface({ input: createReadStream("lines.txt"), crlfDelay: Infinity })) lines.push(line);
  log(lines);
}
// Handles
{
  const handle = await open("handle.txt", "w+");
  log(typeof handle.fd, await handle.write("hello world"), (await handle.stat()).size);
  const buffer = Buffer.alloc(5);
  log((await handle.read(buffer, 0, 5, 6)).bytesRead, buffer.toString());
  await handle.truncate(5);
  await handle.utimes(1, 2);
  await handle.chmod(0o600);
  const { mtimeMs, mode } = await handle.stat();
  log(mtimeMs, (mode & 0o777).toString(8));
  await handle.datasync();
  await handle.sync();
  await handle.appendFile("!!");
  const closed = once(handle, "close");
  await handle.close();
  await closed;
  log(handle.fd, await readFile("handle.txt", "utf8"));
  const lines = await open("lines.txt");
  for await (const line of lines.readLines()) log("line", line);
  const streamed = await open("lines.txt");
  log((await text(streamed.createReadStream())).length);
  const written = await open("written.txt", "w");
  await finished(written.createWriteStream().end("through a handle"));
  log(await readFile("written.txt", "utf8"));
  await open("none").catch((error) => log(shape(error)));
}
// Folders, copies
{
  fs.mkdirSync("tree/a/b", { recursive: true });
  fs.writeFileSync("tree/a/one.txt", "1");
  fs.writeFileSync("tree/a/b/two.md", "2");
  const names = [];
  for await (const entry of await opendir("tree/a")) names.push(`${entry.name}${entry.isDirectory() ? "/" : ""}`);
  log(names.sort());
  fs.cpSync("tree", "copy", { recursive: true, filter: (from) => !from.endsWith(".md") });
  log(fs.readdirSync("copy", { recursive: true }).sort());
  await fs.promises.cp("tree", "full", { recursive: true });
  log(fs.readdirSync("full", { recursive: true }).sort());
  fs.symlinkSync("one.txt", "tree/a/link");
  fs.lutimesSync("tree/a/link", 5, 6);
  log(fs.lstatSync("tree/a/link").mtimeMs, fs.readlinkSync("tree/a/link"));
  await rm("full", { recursive: true });
  log(fs.existsSync("full"), (await stat("tree")).isDirectory());
}
// Watching
{
  fs.mkdirSync("watched");
  const seen = [];
  const watcher = fs.watch("watched", (event, name) => seen.push([event, name]));
  await new Promise((resolve) => setTimeout(resolve, 100));
  fs.writeFileSync("watched/new.txt", "x");
  for (let turn = 0; turn < 200 && seen.length === 0; turn++) await new Promise((resolve) => setTimeout(resolve, 10));
  log(seen[0]);
  const over = once(watcher, "close");
  watcher.close();
  await over;
  try { fs.watch("nowhere"); } catch (error) { log(shape(error), error.filename); }
  const controller = new AbortController();
  const first = (async () => {
    try {
      for await (const event of watch("watched", { signal: controller.signal })) return event;
    } catch (error) {
      return error.name;
    }
  })();
  await new Promise((resolve) => setTimeout(resolve, 100));
  await writeFile("watched/two.txt", "y");
  log(await first);
  const aborted = (async () => {
    try {
      for await (const _ of watch("watched", { signal: controller.signal }));
    } catch (error) {
      return [error.name, error.code];
    }
  })();
  controller.abort();
  log(await aborted);
  const changes = new Promise((resolve) => fs.watchFile("watched/new.txt", { interval: 20 }, (now, before) => resolve([now.size, before.size])));
  await new Promise((resolve) => setTimeout(resolve, 80));
  fs.writeFileSync("watched/new.txt", "longer");
  log(await changes);
  fs.unwatchFile("watched/new.txt");
}
// Patterns
{
  fs.mkdirSync("globs/b/d", { recursive: true });
  fs.mkdirSync("globs/b/.h");
  for (const file of ["a.js", "b/c.js", "b/d/e.js", "b/.h/f.js", "b/z.txt"]) fs.writeFileSync(`globs/${file}`, "");
  const cwd = `${process.cwd()}/globs`;
  for (const pattern of ["**/*.js", "*", "b/**", "**", "b/*/e.js", "./b/*.js", ["a*", "b/*.txt"], "nope/*", "b", "../globs/a.js", "b/", "**/d/**", "b/{c,z}.*", "!(a).js"]) {
    log(pattern, fs.globSync(pattern, { cwd }).sort());
  }
  log(fs.globSync(`${cwd}/b/*.js`).map((path) => path.slice(cwd.length)));
  log(fs.globSync("**/*.js", { cwd, exclude: (name) => name === "d" }).sort(), fs.globSync("*", { cwd: `${cwd}/b`, withFileTypes: true }).map((entry) => `${entry.name} ${entry.isFile()}`).sort());
  const found = [];
  for await (const path of fs.promises.glob("b/*.js", { cwd })) found.push(path);
  log(found, await new Promise((resolve) => fs.glob("*.js", { cwd }, (error, paths) => resolve([error, paths]))));
}
// Checks that Node makes before a system call, and conversions of paths
{
  fs.mkdirSync("odd/folder", { recursive: true });
  fs.writeFileSync("odd/file", "x");
  const told = (error) => [error.name, error.code, error.errno, error.syscall, error.path, error.message].map((part) => String(part).replaceAll(process.cwd(), "<cwd>")).join("|");
  const calls = [
    () => fs.readFileSync("odd/folder"), () => fs.rmSync("odd/none"), () => fs.rmSync("odd/folder"), () => fs.rmSync("odd/file", { recursive: "yes" }),
    () => fs.mkdirSync("odd/other", { recursive: 1 }), () => fs.realpathSync("odd/none"), () => fs.realpathSync.native("odd/none"), () => fs.readFile("odd/file"),
    () => fs.stat("odd/file"), () => fs.accessSync("odd/file", fs.constants.X_OK), () => fs.readlinkSync("odd/file"), () => fs.cpSync("odd/none", "odd/copy"),
  ];
  for (const call of calls) {
    try { log("ok", call()); } catch (error) { log(told(error)); }
  }
  for (const call of [() => fs.promises.rm("odd/folder"), () => fs.promises.readFile("odd/folder"), () => fs.promises.opendir("odd/none"), () => fs.promises.cp("odd/none", "odd/copy")]) {
    await call().then((value) => log("ok", value), (error) => log(told(error)));
  }
  log(fs.mkdirSync("odd/one/two/three", { recursive: true }), await fs.promises.mkdir("odd/one/two", { recursive: true }));
  await fs.promises.writeFile("odd/pieces", (async function* () { yield "a"; yield Buffer.from("b"); })());
  await fs.promises.writeFile("odd/stream", new Blob(["from ", "the web"]).stream());
  await fs.promises.writeFile("odd/list", ["x", "y"]);
  log(["pieces", "stream", "list"].map((name) => fs.readFileSync(`odd/${name}`, "utf8")));
  const stats = fs.statSync("odd/file");
  log(Object.keys(stats), stats.mtime instanceof Date, stats.mtime.getTime() === Math.round(stats.mtimeMs), Object.keys(stats).at(-1), "atime" in stats);
}
// A file may be given the owner that it already has, as packages do that rewrite it
{
  fs.writeFileSync("owned", "x");
  fs.symlinkSync("owned", "owned-link");
  const { uid, gid } = fs.statSync("owned");
  log(fs.chownSync("owned", uid, gid), fs.lchownSync("owned-link", uid, -1), await new Promise((done) => fs.chown("owned", -1, gid, done)));
  const handle = await open("owned");
  log(await handle.chown(uid, gid), fs.fchownSync(handle.fd, uid, gid), await fs.promises.chown("owned", uid, gid), await fs.promises.lchown("owned-link", -1, -1));
  await handle.close();
  for (const wrong of [["gone", uid, gid], ["owned", "0", gid], ["owned", uid, 1.5], ["owned", -2, gid]]) {
    try { log(fs.chownSync(...wrong)); } catch (error) { log(shape(error)); }
  }
}
