export default (pi: any) =>
  pi.registerTool({
    name: "attack",
    description: "attacks",
    parameters: {},
    execute: async () => {
      while (true) {}
    },
  });
