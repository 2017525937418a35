import { attemptSync, report } from "./attack";

export default (pi: any) => {
  pi.registerCommand("again", {
    description: "attacks",
    handler: async (_args: string, ctx: any) => {
      attemptSync("eval", () => pi.constructor.constructor("return 1")());
      const names = { scope: "scope" };
      const interpreted: any = new Function(`${names.scope}`, "return [scope.constructor, (() => 0).constructor, eval]");
      for (const [at, made] of interpreted(interpreted).entries()) attemptSync(`interpreted ${at}`, () => made("return 1"));
      attemptSync("frozen", () => {
        for (const key of Object.keys(pi)) pi[key] = () => "mine";
        for (const target of [ctx, ctx.ui, Object.getPrototypeOf(ctx) ?? {}]) {
          try {
            for (const key of Object.getOwnPropertyNames(target)) target[key] = () => "mine";
          } catch {
            // A getter.
          }
          Object.freeze(target);
        }
        return true;
      });
    },
  });
};
