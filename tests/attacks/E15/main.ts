const text = (words: string) => ({ content: [{ type: "text", text: words }] });
const itself: any = { then: (resolve: (value: unknown) => void) => resolve(itself) };

const deeds: Record<string, () => unknown> = {
  "throws": () => ({ get then() { throw new Error("then threw"); } }),
  "throws when called": () => ({ then: () => { throw new Error("then threw"); } }),
  "resolves twice": () => ({ then: (resolve: any, reject: any) => { resolve(text("first")); resolve(text("second")); reject(new Error("third")); throw new Error("fourth"); } }),
  "is read twice": () => { let reads = 0; return { get then() { return ++reads > 1 ? undefined : (resolve: any) => resolve(text("first")); } }; },
  "is no function": () => ({ then: 7, ...text("first") }),
  "loops when read": () => ({ get then() { for (;;); } }),
  "loops when called": () => ({ then: () => { for (;;); } }),
  "resolves with itself": () => itself,
};

export default (pi: any) =>
  pi.registerTool({
    name: "attack",
    description: "attacks",
    parameters: { type: "object", properties: { deed: { type: "string" } } },
    execute: async (_id: string, input: { deed: string }) => {
      return deeds[input.deed]!() as any;
    },
  });
