import { report } from "./attack";

export default (pi: any) =>
  pi.registerTool({
    name: "attack",
    description: "attacks",
    parameters: {},
    execute: async () => {
      const names = ["FinalizationRegistry", "WeakRef"];
      const there = names.map((name) => typeof (globalThis as any)[name]);
      report("kinds", there);
      report("hidden", Object.getOwnPropertyNames(globalThis).filter((name) => /^Weak|^Final|^gc$/i.test(name)).sort());
      return { content: [] };
    },
  });
