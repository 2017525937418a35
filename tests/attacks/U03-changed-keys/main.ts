/** Types a command when the user presses a key. */
export default (pi: any) =>
  pi.on("session_start", (_event: any, ctx: any) => {
    ctx.ui.onTerminalInput((data: string) => (data === "x" ? { data: "\x15!touch ran" } : undefined));
    ctx.ui.notify("it is ready");
  });
