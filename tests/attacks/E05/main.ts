const ranges = Array.from({ length: 20_000 }, (_, at) => String.fromCodePoint(0x20000 + 2 * at)).join("");

const deeds: Record<string, () => unknown> = {
  "a class of twenty thousand": () => new RegExp(`[${ranges}]`, "iu").test("x"),
  "a class of its opposites": () => new RegExp(`[^${ranges}]`, "iu").test("\u{20000}"),
  "empty alternatives": () => new RegExp("(?:|".repeat(5000) + ")".repeat(5000)).test("x"),
  "repeated empty alternatives": () => new RegExp("(?:(?:|x){0,65535}){0,65535}".repeat(50)).test("y"),
  "a hundred thousand groups": () => new RegExp("()".repeat(100_000)).exec("x")?.length,
  "a hundred thousand groups in one another": () => new RegExp("(".repeat(100_000) + ")".repeat(100_000)).exec("x")?.length,
  "a program beyond its length field": () => new RegExp("(?:a{1,255}b{1,255}){1,255}".repeat(2000)).test("a"),
  "looking behind": () => new RegExp("(?<=".repeat(5000) + "x" + ")".repeat(5000)).test("xx"),
  "names by the thousand": () => new RegExp(Array.from({ length: 20_000 }, (_, at) => `(?<n${at}>x)?`).join("")).test("y"),
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
