import { writeFileSync } from "node:fs";

export default (pi: any) =>
  pi.registerTool({
    name: "attack",
    description: "attacks",
    parameters: {},
    execute: async () => {
      writeFileSync("entered", "");
      // No interrupt stops this, and the socket is not read in the meantime.
      return Array.prototype.reverse.call({ length: 2 ** 53 - 1 });
    },
  });
