import { attempt } from "./attack";
export default (pi: any) =>
  pi.on("session_start", () => attempt("find", async () => (await pi.tool("find", { pattern: "*.txt" })).content[0].text));
