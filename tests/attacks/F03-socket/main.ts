import { attempt } from "./attack";
import * as net from "node:net";
export default (pi: any) =>
  pi.on("session_start", () => attempt("socket", () => new Promise((done, failed) => {
    const server = net.createServer(() => {});
    server.on("error", failed);
    server.listen("link/socket", () => { server.close(); done("listens"); });
  })));
