import { report } from "./attack";

declare const performance: { now(): number };

export default (pi: any) =>
  pi.registerTool({
    name: "attack",
    description: "attacks",
    parameters: {},
    execute: async () => {
      // The clock moves by its own step for each read, whatever is done between two of them.
      const step = (work: () => void) => {
        const before = performance.now();
        work();
        return performance.now() - before;
      };
      const short = step(() => {});
      const long = step(() => {
        for (let at = 0; at < 3_000_000; at++);
      });
      // Sums of parts of a millisecond; the work takes many.
      report("same", Math.abs(short - long) < 0.5);
      const wall = Date.now();
      for (let at = 0; at < 3_000_000; at++);
      report("clock", Date.now() - wall <= 1);
      return { content: [] };
    },
  });
