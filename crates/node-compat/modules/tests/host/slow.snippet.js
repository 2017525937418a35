import http from "node:http";
import net from "node:net";
import { once } from "node:events";
import { text } from "node:stream/consumers";

const served = (options, answer = (_request, response) => response.end("fine")) => {
  const server = http.createServer({ connectionsCheckingInterval: 20, ...options }, answer);
  return new Promise((resolve) => server.listen(0, "127.0.0.1", () => resolve(server)));
};
/** Returns all data that arrives on a connection after this request, until the server closes it. */
const said = async (server, words) => {
  const socket = net.connect(server.address().port, "127.0.0.1");
  socket.on("error", () => {});
  socket.setEncoding("latin1");
  if (words) socket.write(words);
  let all = "";
  for await (const piece of socket) all += piece;
  return all.split("\r\n").filter((line) => !/^(Content-Length|Date|Keep-Alive):/.test(line)).join("|");
};

log(JSON.stringify((({ headersTimeout, requestTimeout, keepAliveTimeout }) => ({ headersTimeout, requestTimeout, keepAliveTimeout }))(http.createServer())));
log(http.createServer({ requestTimeout: 1000 }).headersTimeout, http.createServer({ keepAliveTimeout: 7 }).keepAliveTimeout);

// Clients that send nothing, part of a head, or part of a body
{
  const server = await served({ headersTimeout: 60, requestTimeout: 150 });
  log(await said(server, ""));
  log(await said(server, "GET / HTTP/1.1\r\nHost: a\r\n"));
  server.close();
}
{
  const server = await served({ requestTimeout: 1000, headersTimeout: 1000 }, (request, response) => {
    request.on("error", (error) => log("request", error.code));
    request.resume().on("end", () => response.end("fine"));
  });
  log(await said(server, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhalf"));
  server.close();
}

// A listener takes over
{
  const server = await served({ headersTimeout: 60, requestTimeout: 60 });
  server.once("clientError", (error, socket) => {
    log(error.code, error.message);
    socket.end("own words");
  });
  log(await said(server, "GET"));
  server.close();
}

// A request that arrives in time is not late, however long its response takes
{
  const server = await served({ headersTimeout: 1000, requestTimeout: 1000 }, (_request, response) => setTimeout(() => response.end("late"), 1300));
  const response = await new Promise((resolve) => http.get({ port: server.address().port, host: "127.0.0.1", agent: false }, resolve));
  log(response.statusCode, await text(response));
  server.close();
}

// Idle connections are closed
{
  const server = await served({ keepAliveTimeout: 50 });
  log(await said(server, "GET / HTTP/1.1\r\nHost: a\r\n\r\n"));
  server.close();
  await once(server, "close");
  log("closed");
}
