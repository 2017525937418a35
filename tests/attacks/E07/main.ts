export default (pi: any) =>
  pi.registerTool({
    name: "attack",
    description: "attacks",
    parameters: {},
    execute: async () => {
      return { content: [{ type: "text", text: JSON.stringify(new Proxy(new Array(2 ** 32 - 1), {})).slice(0, 10) }] };
    },
  });
