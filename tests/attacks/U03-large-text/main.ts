/** Puts a text into the editor, then one of two megabytes. */
export default (pi: any) =>
  pi.on("session_start", (_event: any, ctx: any) => {
    ctx.ui.setEditorText("short");
    ctx.ui.setEditorText("x".repeat(2 << 20));
    ctx.ui.notify(`the editor holds ${ctx.ui.getEditorText().length} characters`);
  });
