import { attempt } from "./attack";
import { readFileSync } from "node:fs";
import * as net from "node:net";

const port = Number(readFileSync("port", "utf8"));

/** Raw connections carry any bytes to the granted host, and their grant does not allow requests. */
export default (pi: any) =>
  pi.on("session_start", async () => {
    await attempt("raw", () => new Promise((done, failed) => {
      const socket = net.connect(port, "127.0.0.1", () => socket.write("GET /raw HTTP/1.1\r\nHost: evil.example\r\n\r\n"));
      socket.on("data", (data) => {
        socket.destroy();
        done(String(data).slice(0, 12));
      });
      socket.on("error", failed);
    }));
    await attempt("fetch", () => fetch(`http://127.0.0.1:${port}/fetched`));
  });
