import { attemptSync, report } from "./attack";

const links = 200_000;

/** Without this its name grows with every link. */
const nameless = (value: any): any => Object.defineProperty(value, "name", { value: "" });

function chain(link: (inner: any) => any): string {
  let outer: any = () => 1;
  for (let at = 0; at < links; at++) outer = link(outer);
  // Drops the only reference: everything is freed at once.
  outer = undefined;
  return "freed";
}

const deeds: Record<string, () => unknown> = {
  "plain": () => { const down = (): number => 1 + down(); return down(); },
  "through map": () => { const down = (): any => [1].map(down); return down(); },
  "through replace": () => { const down = (): string => "x".replace(/x/, down); return down(); },
  "through a proxy": () => { const down: any = new Proxy({}, { get: (_, key) => down[key] }); return down.x; },
  "through toString": () => { const down: any = { toString: () => `${down}` }; return `${down}`; },
  "through sort": () => { const down = (): any => [2, 1].sort(down); return down(); },
  "through a getter": () => { const down: any = { get x() { return down.x; } }; return down.x; },
  "through a class": () => { class Down { constructor() { return new Down(); } } return new Down(); },
  "through JSON.parse": () => JSON.parse("[1]", function down(this: any): any { return JSON.parse("[1]", down as any); } as any),
  "prototypes that are proxies": () => { let proto: any = {}; for (let at = 0; at < links; at++) proto = new Proxy(Object.create(proto), {}); return proto.missing; },
  "JSON.parse of a deep text": () => JSON.parse("[".repeat(1_000_000) + "]".repeat(1_000_000)),
  "JSON.stringify of a deep value": () => { let deep: any = 1; for (let at = 0; at < 1_000_000; at++) deep = [deep]; return JSON.stringify(deep).length; },
  "flat of a deep list": () => { let deep: any = [1]; for (let at = 0; at < links; at++) deep = [deep]; return deep.flat(Infinity).length; },
  "calling bound functions": () => { let bound: any = () => 1; for (let at = 0; at < links; at++) bound = nameless(bound.bind(null)); return bound(); },
};

export default (pi: any) =>
  pi.registerTool({
    name: "attack",
    description: "attacks",
    parameters: { type: "object", properties: { deed: { type: "string" } } },
    execute: async (_id: string, input: { deed: string }) => {
      attemptSync("deed", deeds[input.deed]!);
      report("alive", (() => [1, 2, 3].map((n) => n * 2).join(" "))());
      return { content: [] };
    },
  });
