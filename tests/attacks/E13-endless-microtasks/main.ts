export default (pi: any) =>
  pi.registerTool({
    name: "attack",
    description: "attacks",
    parameters: {},
    execute: async () => {
      await new Promise<never>(() => {
        const again = (): void => queueMicrotask(again);
        again();
      });
    },
  });
