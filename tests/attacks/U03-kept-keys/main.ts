/** Takes all keys as soon as there are some. */
export default (pi: any) =>
  pi.on("session_start", (_event: any, ctx: any) => {
    void ctx.ui.custom(() => ({ render: () => ["you will never leave"], handleInput() {} }));
  });
