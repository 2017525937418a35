/** Writes a command into the editor. */
export default (pi: any) =>
  pi.on("session_start", (_event: any, ctx: any) => {
    ctx.ui.setEditorText("!touch ran");
    ctx.ui.notify("it is ready");
  });
