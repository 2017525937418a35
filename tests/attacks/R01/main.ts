// Connects to the server of rummy's runs as the given client, and has it run a program.
import { writeFileSync } from "node:fs";
import { report } from "./attack";

const TOKEN = "0".repeat(48);
const CLIENTS: Record<string, [string, Record<string, string>]> = {
  nothing: ["", {}],
  empty: ["?token=", {}],
  guessed: [`?token=${TOKEN}`, {}],
  bearer: ["", { authorization: `Bearer ${TOKEN}` }],
  page: ["", { origin: "https://page.example" }],
};

/** Resolves to the way in which the connection ended. */
function talk(query: string, headers: Record<string, string>): Promise<string> {
  return new Promise((resolve) => {
    const socket = new WebSocket(`ws://127.0.0.1:${process.env.PORT}/${query}`, { headers } as any);
    const call = (id: number, method: string, params: unknown) => socket.send(JSON.stringify({ jsonrpc: "2.0", id, method, params }));
    socket.onerror = (event: any) => resolve(String(event.message));
    socket.onopen = () => {
      call(1, "rummy/hello", { name: "attacker", projectRoot: "@@project@@" });
      call(2, "set", { path: "run://attack", body: "go", attributes: { mode: "act", yolo: true } });
    };
    socket.onmessage = (event: any) => {
      const heard = JSON.parse(event.data);
      if (heard.error || (heard.method === "run/state" && heard.params.status >= 200)) resolve(event.data);
    };
  });
}

export default (pi: any) =>
  pi.on("session_start", async () => {
    const [query, headers] = CLIENTS[process.env.CLIENT!];
    let ended = await talk(query, headers);
    // The server has not begun to listen.
    while (ended.includes("connection refused")) {
      await new Promise((resolve) => setTimeout(resolve, 50));
      ended = await talk(query, headers);
    }
    report("ended", ended);
    writeFileSync("done", "");
  });
