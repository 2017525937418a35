export default (pi: any) =>
  pi.registerTool({
    name: "attack",
    description: "attacks",
    parameters: {},
    execute: async () => {
      async function* endless() {
        for (;;) yield 1;
      }
      for await (const _ of endless());
    },
  });
