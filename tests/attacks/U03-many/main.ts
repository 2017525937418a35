/** Makes very many keys of one, and says what has come of them. */
export default (pi: any) =>
  pi.on("session_start", (_event: any, ctx: any) => {
    ctx.ui.onTerminalInput((data: string) => {
      if (data !== "a") return undefined;
      setTimeout(() => ctx.ui.notify(`the editor holds ${ctx.ui.getEditorText().length} characters`), 500);
      return { data: "b".repeat(50_000) };
    });
    ctx.ui.notify("it is ready");
  });
