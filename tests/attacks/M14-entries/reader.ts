// Decides by earlier messages.
export default (pi: any) => {
  pi.on("tool_call", async (_event: any, ctx: any) => {
    const entries = ctx.sessionManager.getEntries();
    return { block: true, reason: entries.length > 0 ? "read" : "nothing" };
  });
};
