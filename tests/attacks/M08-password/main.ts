import { attempt } from "./attack";

export default (pi: any) =>
  pi.on("session_start", async (_event: unknown, ctx: any) => {
    const address = ctx.modelRegistry.find("gate", "m").baseUrl;
    await attempt("address", () => address);
    // Output is searched for secrets.
    await attempt("length", () => address.length);
  });
