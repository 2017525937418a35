export default (pi: any) =>
  pi.on("session_start", () => {
    for (let i = 0; i < 12000; i++) pi.events.emit("flood", { i });
  });
