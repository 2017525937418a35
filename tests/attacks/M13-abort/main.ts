/** A tool that never ends, whatever it is told. */
export default (pi: any) => {
  pi.registerTool({
    name: "never",
    description: "never",
    parameters: { type: "object", properties: {} },
    execute: (_id: string, _input: unknown, _signal: unknown, update: any) => {
      update({ content: [{ type: "text", text: "it has begun" }], details: {} });
      return new Promise(() => {});
    },
  });
  // While a person could type it, nobody knows that the promise above is lost.
  pi.registerCommand("perhaps", { handler: async () => {} });
};
