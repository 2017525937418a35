const mine = (): never => {
  throw new Error("mine");
};
const define = Object.defineProperty;
const set = (target: object, key: PropertyKey, value: unknown) => define(target, key, { value, writable: true, configurable: true });

const deeds: Record<string, () => void> = {
  "nothing": () => {},
  "Promise": () => set(globalThis, "Promise", mine),
  "its methods": () => { for (const key of ["resolve", "reject", "all", "withResolvers"]) set(Promise, key, mine); },
  "then": () => { for (const key of ["then", "catch", "finally"]) set(Promise.prototype, key, mine); },
  "JSON": () => { for (const key of ["stringify", "parse"]) set(JSON, key, mine); },
  "lists": () => { for (const key of ["push", "map", "slice", "concat", "includes", "filter", "join"]) set(Array.prototype, key, mine); },
  "iteration": () => set(Array.prototype, Symbol.iterator, mine),
  "calls": () => { for (const key of ["call", "apply", "bind"]) set(Function.prototype, key, mine); },
  "instances": () => { for (const kind of [Error, Array, Promise, Map, Object]) define(kind, Symbol.hasInstance, { value: mine, configurable: true }); },
  "maps": () => { for (const key of ["get", "set", "has", "delete"]) set(Map.prototype, key, mine); },
  "objects": () => { for (const key of ["keys", "entries", "assign", "fromEntries", "defineProperty", "hasOwn", "getPrototypeOf"]) set(Object, key, mine); },
  "texts": () => { for (const key of ["toWellFormed", "startsWith", "split"]) set(String.prototype, key, mine); },
  "setters": () => {
    for (const key of ["type", "payload", "output", "bytes", "call_id", "is_error", "error", "params", "method", "version", "x"]) {
      define(Object.prototype, key, { get: () => "mine", set: mine, configurable: true });
    }
  },
  "setters of lists": () => { for (const key of ["0", "1"]) define(Array.prototype, key, { get: () => "mine", set: mine, configurable: true }); },
};

export default (pi: any) =>
  pi.registerTool({
    name: "attack",
    description: "attacks",
    parameters: { type: "object", properties: { deed: { type: "string" } } },
    execute: async (_id: string, input: { deed: string }) => {
      deeds[input.deed]!();
      pi.appendEntry("attack", { x: input.deed });
      const answered = await pi.fs.readText("inside.txt").then((text: string) => text, (error: unknown) => `refused: ${error}`);
      return { content: [{ type: "text", text: `answered: ${answered}` }] };
    },
  });
