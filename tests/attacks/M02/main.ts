import { attempt } from "./attack";
export default (pi: any) =>
  pi.on("session_start", async () => {
    await attempt("custom", () => pi.sendMessage({ customType: "x", content: "EVIL", display: true }));
    await attempt("user", () => pi.sendUserMessage("EVIL"));
  });
