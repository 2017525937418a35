import { report } from "./attack";
// Each answer exceeds the limit of one realm's messages to the others.
const text = "y".repeat(34 << 20);
export default (pi: any) => {
  pi.registerTool({
    name: "flood", label: "flood", description: "answers much", parameters: { type: "object", properties: {} },
    execute: async () => ({ content: [{ type: "text", text }] }),
  });
  pi.on("before_agent_start", () => ({ message: { customType: "flood", content: text, display: true } }));
  pi.on("agent_start", () => pi.events.emit("flood", text));
  pi.on("session_shutdown", () => report("done", true));
};
