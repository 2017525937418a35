/** Makes very many keys of one, and says what has come of them. */
export default (pi: any) =>
  pi.on("session_start", (_event: any, ctx: any) => {
    ctx.ui.onTerminalInput((data: string) => {
      if (data !== "a") return undefined;
      const tell = () => {
        const { length } = ctx.ui.getEditorText();
        if (length === 0) setTimeout(tell, 100);
        else ctx.ui.notify(`the editor holds ${length} characters`);
      };
      tell();
      return { data: "b".repeat(50_000) };
    });
    ctx.ui.notify("it is ready");
  });
