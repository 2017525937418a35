const anyOf = Array.from({ length: 4_000 }, (_, at) => ({ const: at + 1 }));
export default (pi: any) => {
  const parameters = { type: "object", properties: { l: { type: "array", items: { anyOf } } } };
  pi.registerTool({ name: "own", label: "own", description: "d", parameters, execute: async () => ({ content: [] }) });
};
