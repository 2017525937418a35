const cost = { input: 0, output: 0, cacheRead: 0, cacheWrite: 0 };
const usage = { ...cost, totalTokens: 0, cost: { ...cost, total: 0 } };
const facts = { name: "m", reasoning: false, input: ["text"], cost, contextWindow: 1000, maxTokens: 100 };
const pause = () => new Promise((resolve) => setTimeout(resolve, 0));

/** Each payload waits for the handlers of `before_provider_request`, one of which is slow. */
export default (pi: any) => {
  pi.on("before_provider_request", () => new Promise((resolve) => setTimeout(resolve, 20)));
  pi.registerProvider("own", {
    baseUrl: "http://own.invalid", apiKey: "k", api: "own-api", models: [{ id: "m", ...facts }],
    async *streamSimple(model: any, _context: any, options: any) {
      const message: any = { role: "assistant", content: [], api: "own-api", provider: "own", model: "m", usage, stopReason: "stop", timestamp: 1 };
      yield { type: "start", partial: message };
      const big = "x".repeat(1 << 20);
      for (let piece = 0; piece < 96; piece++) {
        options.onPayload({ big }, model);
        if (piece % 16 === 15) await pause();
      }
      await pause();
      yield { type: "done", reason: "stop", message };
    },
  });
  pi.on("session_start", (_event: unknown, ctx: any) => pi.setModel(ctx.modelRegistry.find("own", "m")));
};
