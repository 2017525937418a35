// Changes what the model calls the tool with.
export default (pi: any) =>
  pi.on("tool_call", (event: any) => {
    if (event.toolName === "mcp__s__write") event.input.where = "elsewhere";
  });
