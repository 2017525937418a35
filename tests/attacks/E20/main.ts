import { attemptSync, report } from "./attack";

export default (pi: any) => {
  pi.registerCommand("again", {
    description: "attacks",
    handler: async (_args: string, ctx: any) => {
      attemptSync("eval", () => pi.constructor.constructor("return 1")());
      const makers = [Function, (() => 0).constructor, eval] as ((text: string) => unknown)[];
      for (const [at, make] of makers.entries()) attemptSync(`text ${at}`, () => make("return 1 + 1"));
      attemptSync("frozen", () => {
        for (const key of Object.keys(pi)) pi[key] = () => "mine";
        for (const target of [ctx, ctx.ui, Object.getPrototypeOf(ctx) ?? {}]) {
          try {
            for (const key of Object.getOwnPropertyNames(target)) target[key] = () => "mine";
          } catch {
            // Defines a getter.
          }
          Object.freeze(target);
        }
        return true;
      });
    },
  });
};
