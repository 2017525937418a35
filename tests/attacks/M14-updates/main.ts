import { report } from "./attack";

/** Each partial result waits for its subscriber, the extension itself. */
export default (pi: any) => {
  let heard = 0;
  pi.on("tool_execution_update", async () => {
    heard++;
    await new Promise((resolve) => setTimeout(resolve, 20));
  });
  pi.on("agent_end", () => report("heard", heard));
  pi.registerTool({
    name: "talks",
    label: "talks",
    description: "talks",
    parameters: { type: "object", properties: {} },
    async execute(_id: string, _input: unknown, _signal: unknown, onUpdate: (partial: unknown) => void) {
      const big = "x".repeat(1 << 20);
      for (let piece = 0; piece < 160; piece++) {
        onUpdate({ content: [{ type: "text", text: big + piece }], details: {} });
        if (piece % 16 === 15) await new Promise((resolve) => setTimeout(resolve, 0));
      }
      return { content: [{ type: "text", text: "done" }] };
    },
  });
};
