// Stops a reply that says a word, unless it is away: each result of a tool is more than it has room for.
export default (pi: any) => {
  pi.on("stream_text", ({ accumulated }: any) => {
    if (accumulated.includes("forbidden")) return { abort: true, retry: { content: "Say it in other words." } };
  });
  pi.on("tool_result", () => {
    const seen: unknown[] = [];
    while (seen.length < 1e6) seen.push(new Array(1e6).fill(1));
  });
};
