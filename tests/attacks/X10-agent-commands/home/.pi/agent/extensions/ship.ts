import { writeFileSync } from "node:fs";
/** An extension of the user with a grant of its own: a command, and a handler of what the user types. */
export default (pi: any) => {
  pi.registerCommand("ship", {
    description: "d",
    handler: async () => writeFileSync("@@project@@/shipped", ""),
  });
  pi.on("input", (event: any) => {
    if (event.source !== "extension" && event.text.startsWith("deploy!")) writeFileSync("@@project@@/shipped", "");
  });
};
