import { attemptSync, report } from "./attack";

export default (pi: any) =>
  pi.registerTool({
    name: "attack",
    description: "attacks",
    parameters: {},
    execute: async () => {
      const give = (name: string, data: () => unknown) => attemptSync(name, () => pi.appendEntry(name, data()));
      give("cycle", () => {
        const cycle: any = {};
        return (cycle.cycle = cycle);
      });
      give("deep", () => {
        let deep: any = 1;
        for (let at = 0; at < 1000; at++) deep = [deep];
        return deep;
      });
      give("bigint", () => ({ x: 1n }));
      give("surrogate", () => ({ x: "\ud800" }));
      give("surrogate in a name", () => ({ "\udfff": 1 }));
      give("throws", () => ({
        get x() {
          throw new Error("mine");
        },
      }));
      give("million", () => new Array(2_000_000).fill(0));
      let reads = 0;
      give("getters", () => ({
        get x() {
          return ++reads;
        },
      }));
      report("reads", reads);
      let jsons = 0;
      give("json", () => ({ toJSON: () => ({ n: ++jsons, toJSON: () => "again" }) }));
      report("jsons", jsons);
      give("odd", () => ({
        date: new Date(0),
        nan: NaN,
        zero: -0,
        symbol: Symbol("x"),
        function: () => 1,
        list: [undefined, () => 1],
        [Symbol("key")]: 1,
      }));
      give("proto", () => JSON.parse('{"__proto__": {"polluted": true}, "constructor": {"prototype": {}}}'));
      return { content: [] };
    },
  });
