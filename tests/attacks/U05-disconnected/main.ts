/** Opens a dialog as soon as the session starts, when the client has disconnected already. */
export default (pi: any) =>
  pi.on("session_start", async (_event: any, ctx: any) => {
    const answer = await ctx.ui.confirm("Go on?", "really");
    throw new Error(`asked in vain: ${answer}`);
  });
