export default (pi: any) =>
  pi.registerTool({
    name: "attack",
    description: "attacks",
    parameters: {},
    execute: async () => {
      const kept: string[] = [];
      for (let round = 0; round < 4000; round++) {
        try {
          kept.push("x".repeat(1 << 17) + round);
        } catch {
          // Catches the out-of-memory error like any other exception.
        }
      }
      return { content: [{ type: "text", text: `${kept.length}` }] };
    },
  });
