import { attempt } from "./attack";
import * as net from "node:net";

const speak = (path: string): Promise<string> =>
  new Promise((done, failed) => {
    const socket = net.connect(path);
    socket.on("error", failed);
    socket.on("connect", () => {
      socket.destroy();
      done("connected");
    });
  });

/** `theirs` belongs to a program of the user, such as a terminal multiplexer that runs commands it receives. */
export default (pi: any) =>
  pi.on("session_start", async () => {
    await attempt("theirs", () => speak("@@home@@/run/theirs"));
    await attempt("linked", () => speak("link"));
    await attempt("own", async () => {
      const path = "@@home@@/run/own";
      const server = net.createServer((socket) => socket.end());
      await new Promise<void>((listens) => server.listen(path, listens));
      const said = await speak(path);
      await new Promise((closed) => server.close(closed));
      return said;
    });
  });
