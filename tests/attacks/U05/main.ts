import { attempt } from "./attack";
export default (pi: any) =>
  pi.on("session_start", async (_event: any, ctx: any) => {
    await attempt("confirm", () => ctx.ui.confirm("sure?", "x"));
    await attempt("select", () => ctx.ui.select("which?", ["a", "b"]));
    await attempt("input", () => ctx.ui.input("what?"));
    await attempt("editor", () => ctx.ui.editor("text", "x"));
  });
