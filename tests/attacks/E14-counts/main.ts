import { report } from "./attack";

export default (pi: any) =>
  pi.registerTool({
    name: "attack",
    description: "attacks",
    parameters: {},
    execute: async () => {
      let fired = 0;
      const later = new Promise((done) => setTimeout(done, 500));
      try {
        for (let count = 0; count < 30_000; count++) setTimeout(() => void fired++, 1);
      } catch {
        // Refused where it was created.
      }
      // All due timers fire first.
      await later;
      report("fired", fired);
      return { content: [] };
    },
  });
