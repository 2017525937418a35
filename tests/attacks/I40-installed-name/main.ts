import { report } from "./attack";
export default (pi: any) => pi.on("before_agent_start", (event: any) => report("prompt", event.systemPrompt));
