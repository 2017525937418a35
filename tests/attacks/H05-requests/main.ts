import { attempt } from "./attack";
import { readFileSync } from "node:fs";
import * as http from "node:http";
import * as net from "node:net";

const port = Number(readFileSync("port", "utf8"));

const ask = (path: string, options: object = {}, body: string[] = []): Promise<string> =>
  new Promise((done, failed) => {
    const request = http.request({ host: "127.0.0.1", port, path, ...options }, (response) => {
      let text = "";
      response.on("data", (piece) => (text += piece));
      response.on("end", () => done(`${response.statusCode} ${text}`));
    });
    request.on("error", failed);
    setTimeout(() => failed(new Error("no answer")), 20000);
    for (const piece of body) request.write(piece);
    request.end();
  });

const send = (bytes: string): Promise<string> =>
  new Promise((done, failed) => {
    const socket = net.connect(port, "127.0.0.1", () => socket.write(bytes));
    socket.on("data", (data) => {
      socket.destroy();
      done(String(data).slice(0, 12));
    });
    socket.on("error", failed);
    setTimeout(() => failed(new Error("no answer")), 20000);
  });

export default (pi: any) =>
  pi.on("session_start", async () => {
    await attempt("honest", () => ask("/honest"));
    await attempt("posted", () => ask("/posted", { method: "POST", headers: { "content-length": 3 } }, ["abc"]));
    await attempt("chunked", () => ask("/chunked", { method: "POST" }, ["a", "bc"]));
    await attempt("host", () => ask("/host", { headers: { Host: "evil.example" } }));
    await attempt("framing", () => ask("/framing", { method: "POST", headers: { "Content-Length": 4, "Transfer-Encoding": "chunked" } }, ["abcd"]));
    await attempt("connect", () => ask("evil.example:443", { method: "CONNECT" }));
    await attempt("raw host", () => send("GET /raw HTTP/1.1\r\nHost: evil.example\r\n\r\n"));
    await attempt("raw smuggled", () => send(`GET /raw HTTP/1.1\nHost: evil.example\n\nGET / HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\n\r\n`));
    await attempt("raw bytes", () => send("PING\r\n"));
    await attempt("raw honest", () => send(`GET /raw-honest HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\n\r\n`));
  });
