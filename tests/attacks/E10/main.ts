export default (pi: any) =>
  pi.registerTool({
    name: "attack",
    description: "attacks",
    parameters: {},
    execute: async () => {
      const kept: string[] = [];
      const fill = async () => {
        await null;
        for (let round = 0; round < 4000; round++) kept.push("x".repeat(1 << 17) + round);
      };
      void fill().catch(() => {});
      await new Promise((resolve) => setTimeout(resolve, 10));
      return { content: [{ type: "text", text: `${kept.length}` }] };
    },
  });
