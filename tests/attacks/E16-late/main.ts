import { report } from "./attack";

export default (pi: any) =>
  pi.registerTool({
    name: "attack",
    description: "attacks",
    parameters: {},
    execute: async () => {
      const all = Array.from({ length: 30_000 }, (_, at) => Promise.reject(at));
      // Looking for each of them among all the others would take for ever, with no limit of a turn in sight.
      for (const promise of all.reverse()) promise.catch(() => {});
      void Promise.reject("the only one");
      await new Promise((done) => setTimeout(done, 10));
      report("alive", true);
      return { content: [] };
    },
  });
