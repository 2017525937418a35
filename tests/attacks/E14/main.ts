import { report, told } from "./attack";

export default (pi: any) =>
  pi.registerTool({
    name: "attack",
    description: "attacks",
    parameters: {},
    execute: async () => {
      const timers: any[] = [];
      try {
        for (let count = 0; count < 1e6; count++) timers.push(setTimeout(() => {}, 1e6));
      } catch (error) {
        const { code, reason } = told(error);
        report("refused", { code, reason });
      }
      report("live", timers.length);
      for (const timer of timers) clearTimeout(timer);
      const order: string[] = [];
      const set = (name: string, delay: number) => new Promise<void>((done) => void setTimeout(() => done(void order.push(name)), delay));
      await Promise.all([set("nan", NaN), set("negative", -1), set("huge", 2 ** 53)]);
      report("odd", order.join(" "));
      return { content: [] };
    },
  });
