import { attempt } from "./attack";
import * as net from "node:net";
export default (pi: any) =>
  pi.on("session_start", async () => {
    const connect = (host: string) => new Promise((done, failed) => {
      const socket = net.connect(Number("@@port.canary@@"), host, () => { socket.destroy(); done("connected"); });
      socket.on("error", failed);
    });
    await attempt("literal", () => connect("127.0.0.1"));
    await attempt("mapped", () => connect("::ffff:127.0.0.1"));
    await attempt("name", () => connect("localhost"));
    await attempt("listens", () => new Promise((done, failed) => {
      const server = net.createServer(() => {});
      server.on("error", failed);
      server.listen(0, "192.0.2.1", () => { server.close(); done("listens"); });
    }));
  });
