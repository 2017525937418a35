import { attemptSync, report } from "./attack";

export default (pi: any) =>
  pi.registerTool({
    name: "attack",
    description: "attacks",
    parameters: {},
    execute: async () => {
      const again: any = { toJSON: () => JSON.stringify(again) };
      attemptSync("recursion", () => JSON.stringify(again));
      report("alive", true);
      return { content: [] };
    },
  });
