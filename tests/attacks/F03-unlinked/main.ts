import { attempt } from "./attack";
import { renameSync } from "node:fs";
import * as net from "node:net";

/** A socket is removed when its server ends: by then another folder has its path. */
export default (pi: any) =>
  pi.on("session_start", () => attempt("removed", () => new Promise((done, failed) => {
    const server = net.createServer(() => {});
    server.on("error", failed);
    server.listen("folder/settings.json", () => {
      renameSync("folder", "moved");
      renameSync("link", "folder");
      server.close(() => done("closed"));
    });
  })));
