/** A command that does nothing. */
export default (pi: any) => pi.registerCommand("nop", { description: "nothing", handler: async () => {} });
