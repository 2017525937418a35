// A minimal pi:runtime for benchmarks.
import { callSync } from "pi:engine";

const handlers = [() => undefined];

export default {
  message({ payload }) {
    if (payload.channel !== "calls") return;
    for (let i = 0; i < payload.data; i++) callSync("log", "log", { n: i });
  },
  result() {},
  failure() {},
  stream(chunk, source) {
    for (const handler of handlers) handler({ chunk, source });
  },
  streamResume() {},
  unhandled() {},
};
