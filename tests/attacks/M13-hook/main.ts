/** A hook about every tool call, and its promise is never settled. */
import { report } from "./attack";

export default (pi: any) => {
  pi.on("tool_call", () => new Promise(() => {}));
  pi.on("session_shutdown", () => report("restarted", true));
};
