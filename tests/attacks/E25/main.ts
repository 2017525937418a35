import { report } from "./attack";

export default (pi: any) =>
  pi.registerTool({
    name: "attack",
    description: "attacks",
    parameters: {},
    execute: async () => {
      let ran = 0;
      const registry = new FinalizationRegistry(() => {
        ran++;
        for (;;) fetch("http://127.0.0.1:1/");
      });
      const references: WeakRef<object>[] = [];
      for (let round = 0; round < 50; round++) {
        for (let index = 0; index < 200; index++) {
          const target = { round, index };
          registry.register(target, index);
          references.push(new WeakRef(target));
        }
        // Garbage, and a turn of its own in which it could be collected.
        Array.from({ length: 2000 }, () => ({ waste: [round] }));
        await new Promise((resolve) => setTimeout(resolve, 0));
      }
      report("ran", ran);
      report("gone", references.filter((reference) => reference.deref() === undefined).length);
      report("hidden", Object.getOwnPropertyNames(globalThis).filter((name) => /^Weak|^Final|^gc$/i.test(name)).sort());
      return { content: [] };
    },
  });
