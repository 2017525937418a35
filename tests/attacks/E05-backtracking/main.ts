export default (pi: any) =>
  pi.registerTool({
    name: "attack",
    description: "attacks",
    parameters: {},
    execute: async () => {
      return { content: [{ type: "text", text: `${/^(?:(?:a+)+)+$/.test(`${"a".repeat(60)}b`)}` }] };
    },
  });
