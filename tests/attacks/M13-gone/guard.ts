// Says no to every call, after it has looked at more than it has room for.
export default (pi: any) => {
  pi.on("tool_call", async () => {
    const seen: unknown[] = [];
    while (seen.length < 1e6) seen.push(new Array(1e6).fill(1));
    return { block: true, reason: "no" };
  });
};
