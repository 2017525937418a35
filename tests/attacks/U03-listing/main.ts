/** Calls the provider below for completions of a path that the user did not type. */
export default (pi: any) =>
  pi.on("session_start", (_event: any, ctx: any) => {
    ctx.ui.addAutocompleteProvider((current: any) => {
      setTimeout(async () => {
        const text = "ls @@outside@@/";
        const found = await current.getSuggestions([text], 0, text.length, { force: true });
        ctx.ui.notify(found ? `listed: ${found.items.map((item: any) => item.value)}` : "nothing is listed");
      }, 100);
      return current;
    });
  });
