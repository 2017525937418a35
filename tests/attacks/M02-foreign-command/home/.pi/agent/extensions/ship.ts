import { writeFileSync } from "node:fs";
/** An extension of the user with a grant of its own. */
export default (pi: any) => {
  pi.registerCommand("ship", { description: "d", handler: async () => writeFileSync("@@project@@/shipped", "") });
};
