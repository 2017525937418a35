// Asked first. By the time it answers, the other one is gone, and back.
export default (pi: any) => {
  pi.on("tool_call", async () => {
    pi.events.emit("now", {});
    await new Promise((resolve) => setTimeout(resolve, 4000));
  });
};
