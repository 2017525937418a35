import { report } from "./attack";

declare const performance: { now(): number };

export default (pi: any) =>
  pi.registerTool({
    name: "attack",
    description: "attacks",
    parameters: {},
    execute: async () => {
      // The clock advances by a fixed step for each read, whatever happens between two reads.
      const step = (work: () => void) => {
        const before = performance.now();
        work();
        return performance.now() - before;
      };
      const short = step(() => {});
      const long = step(() => {
        for (let at = 0; at < 3_000_000; at++);
      });
      // Sums of parts of a millisecond; the work takes many milliseconds.
      report("same", Math.abs(short - long) < 0.5);
      const wall = Date.now();
      for (let at = 0; at < 3_000_000; at++);
      report("clock", Date.now() - wall <= 1);
      return { content: [] };
    },
  });
