import { createHash } from "node:crypto";
import { once } from "node:events";
import http from "node:http";
import net from "node:net";
import tls from "node:tls";

const GUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/** Returns a frame of a server, which has no mask. */
function frame(opcode, payload, isLast = true) {
  const body = Buffer.from(payload);
  const head = body.length < 126 ? Buffer.from([0, body.length]) : body.length < 65536 ? Buffer.from([0, 126, body.length >> 8, body.length & 255]) : Buffer.from([0, 127, 0, 0, 0, 0, (body.length >>> 24) & 255, (body.length >> 16) & 255, (body.length >> 8) & 255, body.length & 255]);
  head[0] = (isLast ? 0x80 : 0) | opcode;
  return Buffer.concat([head, body]);
}

/** Yields the frames of a client as `{opcode, text, masked}`. */
function* frames(state, chunk) {
  state.bytes = Buffer.concat([state.bytes, chunk]);
  for (;;) {
    const { bytes } = state;
    if (bytes.length < 2) return;
    let length = bytes[1] & 127;
    let at = 2;
    if (length === 126) { if (bytes.length < 4) return; length = bytes.readUInt16BE(2); at = 4; }
    else if (length === 127) { if (bytes.length < 10) return; length = Number(bytes.readBigUInt64BE(2)); at = 10; }
    if (bytes.length < at + 4 + length) return;
    const mask = bytes.subarray(at, at + 4);
    const body = Buffer.from(bytes.subarray(at + 4, at + 4 + length));
    for (let i = 0; i < body.length; i++) body[i] ^= mask[i & 3];
    state.bytes = bytes.subarray(at + 4 + length);
    yield { opcode: bytes[0] & 15, body, masked: (bytes[1] & 128) !== 0 };
  }
}

let behave = () => {};
const pongs = [];
const server = http.createServer();
server.on("upgrade", (request, socket) => {
  const accept = createHash("sha1").update(request.headers["sec-websocket-key"] + GUID).digest("base64");
  const offered = request.headers["sec-websocket-protocol"];
  const chosen = offered === undefined ? "" : `Sec-WebSocket-Protocol: ${offered.split(",")[0].trim()}\r\n`;
  socket.write(`HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n${chosen}Sec-WebSocket-Accept: ${request.url === "/lies" ? "wrong" : accept}\r\n\r\n`);
  socket.on("error", () => {});
  const state = { bytes: Buffer.alloc(0) };
  behave(socket, request);
  socket.on("data", (chunk) => {
    for (const { opcode, body, masked } of frames(state, chunk)) {
      if (opcode === 8) {
        log("server: close", masked, body.length >= 2 ? body.readUInt16BE(0) : "none");
        socket.write(frame(8, body));
        socket.end();
      } else if (opcode === 10) pongs.push(body.toString());
      else socket.write(frame(opcode, body));
    }
  });
});
server.on("request", (_request, response) => response.writeHead(403).end("no"));
server.listen(0, "127.0.0.1");
await once(server, "listening");
const { port } = server.address();

// Messages in both directions
{
  const socket = new WebSocket(`ws://127.0.0.1:${port}/chat?x=1`, ["one", "two"]);
  log(socket.readyState, socket.binaryType, socket.protocol === "", socket.url === `ws://127.0.0.1:${port}/chat?x=1`);
  try { socket.send("early"); } catch (error) { log(error.name); }
  await once(socket, "open");
  log(socket.readyState, socket.protocol, socket.extensions === "");
  const next = async () => (await once(socket, "message"))[0];
  let message = next();
  socket.send("grüße");
  const event = await message;
  log(event.type, event.data, event.origin === `ws://127.0.0.1:${port}`, event instanceof MessageEvent);
  message = next();
  socket.send(new Uint8Array([1, 2, 3]));
  const blob = (await message).data;
  log(blob.constructor.name, blob.size);
  socket.binaryType = "arraybuffer";
  message = next();
  socket.send(new Blob(["from a blob"]));
  log(Buffer.from((await message).data).toString());
  for (const size of [125, 126, 65535, 65536, 200000]) {
    message = next();
    socket.send("x".repeat(size));
    log((await message).data.length);
  }
  socket.onclose = (closed) => log("onclose", closed.constructor.name);
  const closed = once(socket, "close");
  try { socket.close(1001); } catch (error) { log(error.name); }
  socket.close(3001, "done");
  log(socket.readyState);
  const [end] = await closed;
  log(end.code, end.reason, end.wasClean, socket.readyState);
  socket.close();
}

// Behaviour of the server
for (const [name, does] of [
  ["parts", (socket) => { socket.write(frame(1, "one ", false)); socket.write(frame(9, "ping")); socket.write(frame(0, "two")); }],
  ["bytewise", (socket) => { for (const byte of frame(1, "slow")) socket.write(Buffer.from([byte])); }],
  ["closes", (socket) => socket.write(frame(8, Buffer.from([0x0f, 0xa0, ...Buffer.from("bye")])))],
  ["closes without a code", (socket) => socket.write(frame(8, ""))],
]) {
  behave = (socket) => setTimeout(() => does(socket), 20);
  const socket = new WebSocket(`ws://127.0.0.1:${port}/`);
  socket.addEventListener("message", (event) => { log(name, event.data); setTimeout(() => socket.close(), 20); });
  const [end] = await once(socket, "close");
  if (name === "parts") log("server: pong", pongs.join());
  log(name, end.code, end.reason, end.wasClean);
}

// Broken connections
behave = () => {};
{
  const socket = new WebSocket(`ws://127.0.0.1:${port}/lies`);
  const [event] = await once(socket, "error");
  log("a wrong answer", event.type);
  const gone = net.createServer((connection) => connection.destroy());
  gone.listen(0, "127.0.0.1");
  await once(gone, "listening");
  const other = new WebSocket(`ws://127.0.0.1:${gone.address().port}/`);
  await once(other, "error");
  log("no answer");
  gone.close();
}
for (const [url, protocols] of [["not a url"], ["ftp://x/"], ["ws://x/#a"], ["ws://x/", ["a", "a"]], ["ws://x/", ["a b"]]]) {
  try { new WebSocket(url, protocols); log("made"); } catch (error) { log(url, error.name, error.code); }
}
log(WebSocket.CONNECTING, WebSocket.OPEN, WebSocket.CLOSING, WebSocket.CLOSED, Object.prototype.toString.call(WebSocket.prototype));

// Encrypted connections to a server without TLS
{
  const deaf = net.createServer((socket) => socket.end());
  deaf.listen(0, "127.0.0.1");
  await once(deaf, "listening");
  const socket = tls.connect({ port: deaf.address().port, host: "127.0.0.1" });
  log(socket.encrypted, socket.authorized);
  const [error] = await once(socket, "error");
  log(error.code);
  deaf.close();
  try { tls.connect({}); } catch (error) { log(error.name, error.code); }
}
server.close();
server.closeAllConnections();
