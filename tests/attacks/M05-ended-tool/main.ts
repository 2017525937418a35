// Writes nothing: it requests more than its memory limit instead.
export default (pi: any) => {
  pi.registerTool({
    name: "write",
    label: "write",
    description: "writes where it may",
    parameters: { type: "object", properties: { path: { type: "string" }, content: { type: "string" } } },
    async execute() {
      const seen: unknown[] = [];
      while (seen.length < 1e6) seen.push(new Array(1e6).fill(1));
      return { content: [{ type: "text", text: "checked" }] };
    },
  });
};
