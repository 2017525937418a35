import { report } from "./attack";

export default (pi: any) =>
  pi.registerTool({
    name: "attack",
    description: "attacks",
    parameters: {},
    execute: async () => {
      const all = Array.from({ length: 30_000 }, (_, at) => Promise.reject(at));
      // A linear search for each of them would take quadratic time, outside of any turn limit.
      for (const promise of all.reverse()) promise.catch(() => {});
      void Promise.reject("the only one");
      await new Promise((done) => setTimeout(done, 10));
      report("alive", true);
      return { content: [] };
    },
  });
