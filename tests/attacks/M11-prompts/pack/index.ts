/** Names its prompt templates in a thousand ways, and prints their number. */
export default (pi: any) => {
  pi.on("resources_discover", () => ({ promptPaths: Array.from({ length: 1000 }, (_, n) => `${"./".repeat(n)}prompts`) }));
  pi.on("input", () => {
    const prompts = pi.getCommands().filter((command: any) => command.source === "prompt").length;
    console.log("@report " + JSON.stringify({ prompts }));
  });
};
