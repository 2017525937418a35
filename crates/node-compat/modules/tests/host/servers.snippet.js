import http, { createServer } from "node:http";
import net from "node:net";
import { once } from "node:events";
import { text } from "node:stream/consumers";

const shape = (error) => [error.name, error.code, error.syscall, error.message.replace(/:\d{4,5}\b/, ":PORT")].join("|");
const tick = (ms = 5) => new Promise((resolve) => setTimeout(resolve, ms));

// Plain connections
{
  const server = net.createServer((socket) => {
    socket.on("data", (data) => socket.write(`echo ${data}`));
    socket.on("end", () => socket.end("bye"));
  });
  server.on("close", () => log("server closed"));
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { address, port, family } = server.address();
  log(address, typeof port, family, server.listening);
  const socket = net.connect(port, "127.0.0.1");
  log(socket.connecting, socket.pending, socket.readyState);
  await once(socket, "connect");
  log(socket.connecting, socket.readyState, socket.remoteAddress, socket.remotePort === port, socket.remoteFamily);
  socket.setEncoding("utf8");
  socket.write("hello");
  log((await once(socket, "data"))[0]);
  socket.write("again");
  log((await once(socket, "data"))[0]);
  socket.end();
  log(await text(socket));
  if (!socket.closed) await once(socket, "close");
  log(socket.destroyed, socket.readyState, socket.bytesRead, socket.bytesWritten);
  const arrived = once(server, "connection");
  const other = net.connect({ port, host: "localhost" }, () => log("connected"));
  await Promise.all([once(other, "connect"), arrived]);
  log(await new Promise((resolve) => server.getConnections((_error, count) => resolve(count > 0))));
  const closed = once(other, "close");
  other.destroy();
  log(await closed);
  server.close();
  await once(server, "close");
  log(server.listening, server.address());
  await once(net.connect(1, "127.0.0.1"), "error").then(([error]) => log(shape(error), error.errno, error.address, error.port));
  await once(net.connect({ path: "none.sock" }), "error").then(([error]) => log(shape(error), error.address));
  for (const call of [() => net.connect(70000), () => net.connect({ port: "x" }), () => net.createServer().listen(-1)]) {
    try { call(); } catch (error) { log(error.name, error.code); }
  }
  const paths = net.createServer((socket) => socket.end("over a path"));
  paths.listen("made.sock");
  await once(paths, "listening");
  log(paths.address(), await text(net.connect("made.sock")));
  paths.close();
  await once(paths, "close");
  const first = net.createServer().listen(0, "127.0.0.1");
  await once(first, "listening");
  const second = net.createServer();
  second.on("error", (error) => log(shape(error)));
  second.listen(first.address().port, "127.0.0.1");
  await once(second, "error").catch(() => {});
  first.close();
  const slow = net.createServer((socket) => socket.setTimeout(20, () => socket.end("too slow"))).listen(0, "127.0.0.1");
  await once(slow, "listening");
  log(await text(net.connect(slow.address().port, "127.0.0.1")));
  slow.close();
}
// HTTP
{
  const seen = [];
  const server = createServer(async (request, response) => {
    const body = await text(request);
    seen.push([request.method, request.url, request.headers["x-test"] ?? null, body.length]);
    if (request.url === "/json") {
      response.writeHead(201, "Made", { "content-type": "application/json", "x-many": ["a", "b"] });
      response.end(JSON.stringify({ body }));
    } else if (request.url === "/chunks") {
      response.setHeader("Content-Type", "text/plain");
      response.write("one ");
      await tick();
      response.write(Buffer.from("two "));
      response.end("three");
    } else if (request.url === "/empty") {
      response.statusCode = 204;
      response.end();
    } else if (request.url === "/hang") {
      request.socket.destroy();
    } else if (request.url === "/headers") {
      try { response.setHeader("bad name", "x"); } catch (error) { log(error.code); }
      try { response.setHeader("x", "a\nb"); } catch (error) { log(error.code); }
      response.setHeader("X-Seen", 1);
      log(response.getHeader("x-seen"), response.hasHeader("X-SEEN"), response.getHeaderNames(), response.headersSent);
      response.flushHeaders();
      log(response.headersSent);
      try { response.setHeader("late", "x"); } catch (error) { log(error.code); }
      response.end("done");
    } else {
      response.statusCode = 404;
      response.end("nothing here");
    }
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address();
  const ask = (path, options = {}, body) =>
    new Promise((resolve, reject) => {
      const request = http.request({ port, host: "127.0.0.1", path, ...options }, async (response) => resolve([response.statusCode, response.statusMessage, response.headers, await text(response), response.complete]));
      request.on("error", reject);
      request.end(body);
    });
  const plain = ([status, message, headers, body, complete]) => log(status, message, headers["content-type"] ?? null, headers["content-length"] ?? null, headers["transfer-encoding"] ?? null, headers["x-many"] ?? null, body, complete);
  plain(await ask("/json", { method: "POST", headers: { "X-Test": "yes" } }, "payload"));
  plain(await ask("/chunks"));
  plain(await ask("/empty", { method: "DELETE" }));
  plain(await ask("/nowhere"));
  plain(await ask("/json", { method: "HEAD" }));
  plain(await ask("/headers"));
  await ask("/hang").catch((error) => log(error.code, error.message));
  const streamed = http.request(`http://127.0.0.1:${port}/json`, { method: "PUT" });
  streamed.write("part one, ");
  streamed.write("part two");
  streamed.end();
  const [answer] = await once(streamed, "response");
  log(answer.statusCode, await text(answer));
  const [local] = await once(http.get(`http://localhost:${port}/get?x=1`), "response");
  log("got", local.statusCode, await text(local));
  await tick(50);
  log(seen);
  const controller = new AbortController();
  const aborted = http.get({ port, host: "127.0.0.1", path: "/chunks", signal: controller.signal });
  controller.abort();
  await once(aborted, "error").then(([error]) => log(error.name, error.code));
  for (const call of [() => http.request({ path: "/a b" }), () => http.request("ftp://x/"), () => http.request({ method: "B AD" }), () => http.request("not a url")]) {
    try { call(); } catch (error) { log(error.name, error.code); }
  }
  const raw = net.connect(port, "127.0.0.1");
  raw.end("BROKEN\r\n\r\n");
  log((await text(raw)).split("\r\n")[0]);
  const kept = net.connect(port, "127.0.0.1");
  kept.setEncoding("utf8");
  kept.write("GET /empty HTTP/1.1\r\nHost: x\r\n\r\nGET /nowhere HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  log((await text(kept)).match(/HTTP\/1\.1 \d+ [A-Za-z ]+/g));
  server.on("upgrade", (request, socket, head) => {
    log(request.headers.upgrade, head.length);
    socket.end("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: mine\r\n\r\nraw bytes");
  });
  const upgraded = http.get({ port, host: "127.0.0.1", headers: { Connection: "Upgrade", Upgrade: "mine" } });
  const [response, socket, head] = await once(upgraded, "upgrade");
  log(response.statusCode, head.toString() + (await text(socket)));
  log(http.STATUS_CODES[418], http.METHODS.includes("PATCH"));
  server.close();
  server.closeAllConnections();
  await once(server, "close");
  log("closed");
}
// Causes of failed fetches, and URLs that need no server
{
  const cause = (error) => [error.name, error.message, error.cause?.name, error.cause?.code, error.cause?.syscall, error.cause?.hostname, error.cause?.message].join("|");
  for (const [url, options] of [["http://127.0.0.1:2/"], ["http://no-such-host.invalid/"], ["ftp://x/"], ["file:///etc/hosts"], ["about:blank"], ["data:nothing"], ["http://127.0.0.1:2/", { method: "CONNECT" }], ["http://127.0.0.1:2/", { method: "A B" }], ["not a url"]]) {
    await fetch(url, options).then((response) => log(response.status), (error) => log(cause(error).replace(/\|\|\|Invalid URL$/, "||Invalid URL")));
  }
  for (const url of ["data:text/plain,hi%20there", "data:;base64,aGVsbG8=", "data:application/json;charset=utf-8;base64,eyJhIjoxfQ==", "data:,%C3%A9#part"]) {
    const response = await fetch(url);
    log(response.status, response.ok, response.headers.get("content-type"), await response.text());
  }
  for (const call of [() => new Headers({ "a b": "x" }), () => new Headers().set("a", "x\ny"), () => new Headers().get("é")]) {
    try { call(); } catch (error) { log(error.name, error.message); }
  }
  const request = new Request("http://a.test/", { method: "post", body: "x" });
  log(request.method, request.mode, request.credentials, request.cache, request.redirect, request.keepalive, request.duplex);
}

// The client leaves before the response is complete: request and response are notified, later writes are dropped silently
{
  const seen = [];
  let said;
  const gone = new Promise((resolve) => (said = resolve));
  const server = http.createServer((request, response) => {
    request.on("error", (error) => seen.push(["request error", error.code, error.message]));
    request.on("aborted", () => seen.push("aborted"));
    request.on("close", () => seen.push("request close"));
    response.on("error", (error) => seen.push(["response error", error.code]));
    response.on("close", () => {
      seen.push(["response close", response.writableFinished, response.destroyed]);
      response.write("lost");
      response.end("lost, too");
      setTimeout(said, 20);
    });
    response.writeHead(200, { "Content-Type": "text/event-stream" });
    response.write("data: 1\n\n");
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const controller = new AbortController();
  const answer = await fetch(`http://127.0.0.1:${server.address().port}/`, { signal: controller.signal });
  const reader = answer.body.getReader();
  log(new TextDecoder().decode((await reader.read()).value));
  controller.abort();
  log(await reader.read().catch((error) => error.name));
  await gone;
  log(seen);
  server.close();
  await once(server, "close");
}

// Ending a response twice has no further effect.
{
  const seen = [];
  const server = http.createServer((request, response) => {
    response.on("error", (error) => seen.push([error.code, error.message]));
    response.end("once");
    response.end("twice", (error) => seen.push(error.code));
    response.write("more", (error) => seen.push(error.code));
    try {
      response.setHeader("late", "yes");
    } catch (error) {
      seen.push(error.code);
    }
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const answer = await fetch(`http://127.0.0.1:${server.address().port}/`);
  log(answer.status, await answer.text(), seen);
  server.close();
  server.closeAllConnections();
}
