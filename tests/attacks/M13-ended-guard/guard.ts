// Refuses every call, after it has read more than its memory limit.
export default (pi: any) => {
  pi.on("tool_call", async () => {
    const seen: unknown[] = [];
    while (seen.length < 1e6) seen.push(new Array(1e6).fill(1));
    return { block: true, reason: "no" };
  });
};
