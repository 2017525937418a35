import { report } from "./attack";

export default (pi: any) =>
  pi.registerTool({
    name: "attack",
    description: "attacks",
    parameters: {},
    execute: async () => {
      const keys: string[] = [];
      for (const key in {}) keys.push(key);
      report("keys", keys);
      const list: string[] = [];
      for (const key in []) list.push(key);
      report("list", list);
      report("function", typeof (Function.prototype as any).polluted);
      report("array", Array.isArray(Array.prototype.map.call([1], String)) === false);
      report("promise", await Promise.resolve("ok").then((value) => value));
      return { content: [] };
    },
  });
