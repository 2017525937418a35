// Asked first. By the time it answers, the other one is gone, and back.
export default (pi: any) => {
  pi.on("tool_call", async () => {
    const back = new Promise((resolve) => pi.events.on("back", resolve));
    pi.events.emit("now", {});
    // A handler that waits for nothing at all is given up soon.
    const waits = setInterval(() => {}, 1000);
    await back;
    clearInterval(waits);
  });
};
