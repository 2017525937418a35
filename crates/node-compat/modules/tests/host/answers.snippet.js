import net from "node:net";
import http from "node:http";
import { once } from "node:events";

// Server responses with numbers out of range, and with bytes that are not text
const heads = {
  "/range": ["999 X", "x-name: a"],
  "/utf8": ["200 OK", "x-name: naïve 漢"],
  "/bytes": ["200 OK", Buffer.from("x-name: na\xefve", "latin1")],
  "/names": ["299 OK", "x'name: a"],
};
const server = net.createServer((socket) => {
  socket.on("error", () => {});
  socket.once("data", (data) => {
    const [status, line] = heads[String(data).split(" ")[1]];
    socket.end(Buffer.concat([`HTTP/1.1 ${status}\r\n`, line, "\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok"].map((part) => Buffer.from(part))));
  });
});
server.listen(0, "127.0.0.1");
await once(server, "listening");
const { port } = server.address();
for (const path of Object.keys(heads)) {
  const response = await fetch(`http://127.0.0.1:${port}${path}`);
  const copy = response.clone();
  log(path, response.status, response.ok, JSON.stringify([...response.headers]), await response.text(), copy.status);
  const [message] = await once(http.get(`http://127.0.0.1:${port}${path}`), "response");
  log(message.statusCode, JSON.stringify(message.rawHeaders));
  message.resume();
  await once(message, "end");
}
server.close();
