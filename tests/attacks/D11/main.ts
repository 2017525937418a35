import { report, told } from "./attack";
import { readFileSync } from "node:fs";
import { readFile } from "node:fs/promises";
export default (pi: any) =>
  pi.on("session_start", async () => {
    const order: string[] = [];
    const tricky = {
      get then() {
        order.push("getter " + readFileSync("a.txt", "utf8"));
        return (done: any) => {
          order.push("then " + readFileSync("b.txt", "utf8"));
          done("settled");
        };
      },
    };
    const first = readFile("a.txt", "utf8").then((value) => { order.push("async " + value); return tricky; });
    const nested = { toJSON() { order.push("toJSON " + readFileSync("b.txt", "utf8")); return "x"; } };
    await pi.log("info", "x", nested);
    order.push(String(await first));
    report("order", order.map((line) => line.trim()));
  });
