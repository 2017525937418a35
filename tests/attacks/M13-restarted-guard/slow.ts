// Called first. When it answers, the other one has ended and restarted.
export default (pi: any) => {
  pi.on("tool_call", async () => {
    const back = new Promise((resolve) => pi.events.on("back", resolve));
    pi.events.emit("now", {});
    // A handler without a pending operation is given up soon.
    const waits = setInterval(() => {}, 1000);
    await back;
    clearInterval(waits);
  });
};
