const stuck = (): never => {
  for (;;);
};

const deeds: Record<string, () => unknown> = {
  "a length that is asked for": () => Array.prototype.join.call({ get length() { return stuck(); } }),
  "a length behind a proxy": () => Array.prototype.forEach.call(new Proxy({}, { get: stuck }) as any, () => {}),
  "a length without end": () => Array.prototype.forEach.call(new Proxy({}, { get: (_, key) => (key === "length" ? 2 ** 53 - 1 : 0), has: () => true }) as any, () => {}),
  "an iterator without end": () => { for (const _ of { [Symbol.iterator]: () => ({ next: () => ({ done: false, value: 1 }) }) } as any); },
  "an iterator that is spread": () => Math.max(...({ [Symbol.iterator]: () => ({ next: () => ({ done: false, value: 1 }) }) } as any)),
  "a comparator": () => [3, 1, 2].sort(stuck),
  "a number that is asked for": () => +({ valueOf: stuck } as any),
  "a key that is asked for": () => ({} as any)[{ toString: stuck } as any],
  "a class that knows its instances": () => ({}) instanceof ({ [Symbol.hasInstance]: stuck } as any),
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
