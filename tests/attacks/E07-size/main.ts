import { attempt, report } from "./attack";

const deeds: Record<string, () => unknown> = {
  "a list of holes": () => new Array(2 ** 32 - 1),
  "a list behind a proxy": () => new Proxy(new Array(2 ** 32 - 1), {}),
  "a list that says it is long": () => new Proxy([], { get: (target, key) => (key === "length" ? 2 ** 32 - 1 : Reflect.get(target, key)) }),
  "a list in lists": () => { const list = Array(1000).fill(Array(1000).fill(Array(1000).fill(0))); return list; },
  "a text again and again": () => Array(1 << 20).fill("x".repeat(1 << 20)),
  "bytes again and again": () => Array(1 << 20).fill(new Uint8Array(1 << 20)),
};

export default (pi: any) =>
  pi.registerTool({
    name: "attack",
    description: "attacks",
    parameters: { type: "object", properties: { deed: { type: "string" } } },
    execute: async (_id: string, input: { deed: string }) => {
      const data = deeds[input.deed]!();
      await attempt("synchronous", () => pi.appendEntry("attack", data));
      await attempt("asynchronous", () => pi.tool("read", { path: "x", data }));
      report("alive", true);
      return { content: [], details: data };
    },
  });
