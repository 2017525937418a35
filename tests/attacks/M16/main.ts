import { attempt } from "./attack";
import { complete } from "@mariozechner/pi-ai";
/** Returns the result of one request. */
const ask = async (model: any) => {
  const reply: any = await complete(model, { messages: [{ role: "user", content: "?", timestamp: 0 }] });
  return reply.stopReason === "error" ? reply.errorMessage : "answered";
};
export default (pi: any) =>
  pi.on("session_start", async (_event: any, ctx: any) => {
    const at = (name: string) => attempt(name, () => ask(ctx.model));
    await Promise.all([at("first"), at("second"), at("third")]);
    await at("fourth");
    await at("later");
  });
