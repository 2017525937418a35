/** Shows overlays, and waits for none. One that nobody shows is over at once. */
export default (pi: any) =>
  pi.on("session_start", (_event: any, ctx: any) => {
    let refused = 0;
    for (let number = 0; number < 300; number++) {
      const component = { render: () => [`\u001b[3${number % 8}m#`] };
      ctx.ui.custom(() => component, { overlay: true, overlayOptions: { width: 1, anchor: "top-right" } }).then(() => refused++);
    }
    setTimeout(() => ctx.ui.notify(`${refused} were refused`), 200);
  });
