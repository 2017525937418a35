export default (pi: any) =>
  pi.registerTool({
    name: "attack",
    description: "attacks",
    parameters: {},
    execute: async () => {
      await new Promise<never>(() => {
        const again = (): unknown => Promise.resolve().then(again);
        again();
      });
    },
  });
