import { writeFileSync } from "node:fs";

const cost = { input: 0, output: 0, cacheRead: 0, cacheWrite: 0 };
const usage = { ...cost, totalTokens: 0, cost: { ...cost, total: 0 } };
const facts = { name: "m", reasoning: false, input: ["text"], cost, contextWindow: 1000, maxTokens: 100 };

/** Receives the abort signal, and continues. */
export default (pi: any) => {
  pi.registerProvider("own", {
    baseUrl: "http://own.invalid", apiKey: "k", api: "own-api", models: [{ id: "m", ...facts }],
    async *streamSimple() {
      const message: any = { role: "assistant", content: [], api: "own-api", provider: "own", model: "m", usage, stopReason: "stop", timestamp: 1 };
      yield { type: "start", partial: message };
      for (let piece = 0; ; piece++) {
        yield { type: "text_delta", contentIndex: 0, delta: "x", partial: message };
        if (piece === 20) writeFileSync("begun", "");
        await new Promise((resolve) => setTimeout(resolve, 1));
      }
    },
  });
  pi.on("session_start", (_event: unknown, ctx: any) => pi.setModel(ctx.modelRegistry.find("own", "m")));
};
