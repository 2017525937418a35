/** Turns one key into very many, and reports the result. */
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
