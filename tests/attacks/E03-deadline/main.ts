const deeds: Record<string, () => unknown> = {
  "array-to-string": () => `${new Array(1e9)}`,
  "join": () => Array.prototype.join.call({ length: 2 ** 53 - 1 }, ""),
  "reverse": () => Array.prototype.reverse.call({ length: 2 ** 53 - 1 }),
  "copyWithin": () => Array.prototype.copyWithin.call({ length: 2 ** 53 - 1 }, 0, 1),
  "concat": () => ([] as any[]).concat({ length: 2 ** 53 - 1, [Symbol.isConcatSpreadable]: true }),
  "sort": () => new Array(2 ** 32 - 1).sort(),
  "unshift": () => Array.prototype.unshift.call({ length: 2 ** 53 - 2 }, 1),
  "shift": () => Array.prototype.shift.call({ length: 2 ** 53 - 1 }),
  "splice": () => Array.prototype.splice.call({ length: 2 ** 53 - 1 }, 0, 1),
  "slice": () => Array.prototype.slice.call({ length: 2 ** 32 - 1 }),
  "toLocaleString": () => Array.prototype.toLocaleString.call({ length: 2 ** 32 - 1 }),
  "indexOf": () => "a".repeat(1 << 24).indexOf(`${"a".repeat(1 << 20)}b`),
  "includes": () => "a".repeat(1 << 24).includes(`${"a".repeat(1 << 20)}b`),
  "join with a separator": () => Array.prototype.join.call({ length: 2 ** 32 - 1 }, ","),
};

export default (pi: any) =>
  pi.registerTool({
    name: "attack",
    description: "attacks",
    parameters: { type: "object", properties: { deed: { type: "string" } } },
    execute: async (_id: string, input: { deed: string }) => {
      return { content: [{ type: "text", text: `done: ${String(await deeds[input.deed]!()).slice(0, 100)}` }] };
    },
  });
