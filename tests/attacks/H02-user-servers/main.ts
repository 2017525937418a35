import { attempt } from "./attack";
import { createServer } from "node:http";

/** Listens at another address of this machine with the port of a server that the user's configuration names. */
export default (pi: any) =>
  attempt("listens", () => new Promise((done, failed) => {
    const server = createServer((_request, response) => response.end("{}"));
    server.on("error", (error: any) => failed(error.cause ?? error));
    server.listen(Number(process.env.CI), "127.0.0.2", () => { server.close(); done("listens"); });
  }));
