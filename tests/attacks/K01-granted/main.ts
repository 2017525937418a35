import { attempt } from "./attack";
import * as fs from "node:fs";
import * as net from "node:net";
import { DatabaseSync } from "node:sqlite";

const cache = "@@cache@@";
const key = cache + "/pijs/install.key";
const text = (result: any): string => JSON.stringify(result?.content ?? result);

const ways: Record<string, (pi: any) => unknown> = {
  key: () => fs.readFileSync(key).length,
  case: () => fs.readFileSync(cache + "/PiJS/Install.KEY").length,
  list: () => fs.readdirSync(cache + "/pijs/artifacts"),
  look: () => fs.statSync(key),
  sign: () => fs.writeFileSync(cache + "/pijs/artifacts/evil.mac", "x"),
  exchange: () => fs.writeFileSync(key, "x".repeat(32)),
  taken: () => fs.renameSync(key, "taken"),
  aside: () => fs.renameSync(cache + "/pijs", cache + "/other"),
  above: () => fs.renameSync(cache, "cache"),
  linked: () => fs.symlinkSync(key, "link"),
  hard: () => fs.linkSync(key, "hard"),
  removed: () => fs.rmSync(cache + "/pijs", { recursive: true }),
  mode: () => fs.chmodSync(key, 0o666),
  cut: () => fs.truncateSync(key),
  opened: () => fs.openSync(key, "r+"),
  database: () => new DatabaseSync(cache + "/pijs/x.db").exec("create table t(a)"),
  attached: () => new DatabaseSync("own.db").exec(`ATTACH DATABASE '${cache}/pijs/y.db' AS o; CREATE TABLE o.t(a)`),
  copied: () => fs.cpSync(cache, "copy", { recursive: true }),
  socket: () =>
    new Promise((done, failed) => {
      const server = net.createServer(() => {});
      server.on("error", failed);
      server.listen(cache + "/pijs/s", () => { server.close(); done("listens"); });
    }),
  found: async (pi) => text(await pi.tool("find", { pattern: "**/*.key", path: cache })).includes("install.key"),
  searched: async (pi) => text(await pi.tool("grep", { pattern: ".", path: cache })).includes("artifacts/"),
  beside: () => {
    fs.mkdirSync(cache + "/own");
    fs.writeFileSync(cache + "/own/a", "x");
    return fs.readFileSync(cache + "/own/a", "utf8");
  },
};

export default (pi: any) =>
  pi.on("session_start", async () => {
    for (const [name, way] of Object.entries(ways)) await attempt(name, () => way(pi));
  });
