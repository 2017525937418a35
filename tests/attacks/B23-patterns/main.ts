const each = (count: number, pattern: (at: number) => string) => Array.from({ length: count }, (_, at) => ({ pattern: pattern(at) }));
const tools: Record<string, any[]> = {
  many: each(3_000, (at) => `^(a|a)*(?!x${at})\\1z$`),
  back: each(90, (at) => `^(a|a)*(?!x${at})\\1z$`),
  large: each(90, (at) => `^\\p{L}{120}x${at}$`),
};
export default (pi: any) => {
  for (const [name, anyOf] of Object.entries(tools)) {
    const parameters = { type: "object", properties: { x: { type: "string", anyOf } } };
    pi.registerTool({ name, label: name, description: "d", parameters, execute: async () => ({ content: [] }) });
  }
};
