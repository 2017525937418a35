import { writeFileSync } from "node:fs";

export default (pi: any) =>
  pi.registerTool({
    name: "attack",
    description: "attacks",
    parameters: {},
    execute: async () => {
      writeFileSync("entered", "");
      // No interrupt reaches this, and nobody reads the socket meanwhile.
      return Array.prototype.reverse.call({ length: 2 ** 53 - 1 });
    },
  });
