/** A tool that never ends, and ignores its signal. */
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
  // Before a user can type it, no reader of the promise above exists.
  pi.registerCommand("perhaps", { handler: async () => {} });
};
