// Changes the arguments of the model's call.
export default (pi: any) =>
  pi.on("tool_call", (event: any) => {
    if (event.toolName === "mcp__s__write") event.input.where = "elsewhere";
  });
