/** Runs each shape over the reply that stdin holds as a list of chunks, and prints `{shape: nanoseconds of CPU time}`. */
import { readFileSync } from "node:fs";
import { shapes } from "./shapes.mjs";

const chunks = JSON.parse(readFileSync(0, "utf8"));
const took = {};
for (const [name, handler] of Object.entries(shapes)) {
  const begin = process.cpuUsage();
  let accumulated = "";
  for (const chunk of chunks) {
    accumulated += chunk;
    if (handler({ type: "stream_text", chunk, accumulated })) throw new Error(`${name}: the reply breaks no rule`);
  }
  const { user, system } = process.cpuUsage(begin);
  took[name] = (user + system) * 1000;
  if (!handler({ type: "stream_text", chunk: "forbidden_19(1)", accumulated: `${accumulated}\nforbidden_19(1)` })) throw new Error(`${name}: it sees nothing`);
}
console.log(JSON.stringify(took));
