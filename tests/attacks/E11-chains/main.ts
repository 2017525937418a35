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
  "proxies": () => chain((inner) => new Proxy(inner, {})),
  "bound functions": () => chain((inner) => nameless(inner.bind(null))),
  "causes": () => chain((inner) => new Error("x", { cause: inner })),
  "closures": () => chain((inner) => () => inner),
  "promises": () => chain((inner) => Promise.resolve([inner])),
  "prototypes": () => chain((inner) => Object.create(typeof inner === "function" ? null : inner)),
  "maps": () => chain((inner) => new Map([[inner, inner]])),
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
