// Stops a reply with a certain word, unless it has ended: each result of a tool exceeds its memory limit.
export default (pi: any) => {
  pi.on("stream_text", ({ accumulated }: any) => {
    if (accumulated.includes("forbidden")) return { abort: true, retry: { content: "Say it in other words." } };
  });
  pi.on("tool_result", () => {
    const seen: unknown[] = [];
    while (seen.length < 1e6) seen.push(new Array(1e6).fill(1));
  });
};
