import { report } from "./attack";
export default (pi: any) => {
  pi.on("tool_call", () => ({ block: true, reason: "never" }));
  pi.on("tool_call", () => { throw new Error("never"); });
  pi.on("session_shutdown", () => report("done", true));
};
