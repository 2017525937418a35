/** Adds three hundred completion providers. */
export default (pi: any) =>
  pi.on("session_start", (_event: any, ctx: any) => {
    let added = 0;
    for (let number = 0; number < 300; number++) {
      ctx.ui.addAutocompleteProvider((current: any) => {
        added++;
        return current;
      });
    }
    ctx.ui.notify(`${added} of 300 complete`);
  });
