// Refuses every call, and is ended while another extension is called.
export default (pi: any) => {
  pi.on("tool_call", async () => ({ block: true, reason: "no" }));
  pi.on("session_start", () => pi.events.emit("back", {}));
  pi.events.on("now", () => {
    const seen: unknown[] = [];
    while (seen.length < 1e6) seen.push(new Array(1e6).fill(1));
  });
};
