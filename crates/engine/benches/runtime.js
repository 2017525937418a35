// A pi:runtime with nothing in the way of what is measured.
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
