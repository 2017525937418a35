const huge = (1n << 1000000n) - 1n;
const half = (1n << 500000n) - 1n;

/** Repeats the work: a single run may end in time on a fast machine. */
function often(work: () => unknown): string {
  for (let round = 0; round < 100_000; round++) work();
  return "over";
}

const deeds: Record<string, () => unknown> = {
  "text": () => often(() => huge.toString()),
  "text in another base": () => often(() => huge.toString(7)),
  "division": () => often(() => huge / half),
  "remainder": () => often(() => huge % half),
  "power": () => often(() => 3n ** 600000n),
  "product": () => often(() => huge * huge),
  "reading": () => often(() => BigInt("9".repeat(300000))),
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
