/** A model that answers in one word. */
export default (pi: any) => {
  pi.registerProvider("own", {
    baseUrl: "http://own.invalid",
    apiKey: "k",
    api: "own-api",
    models: [{ id: "m", name: "m", reasoning: false, input: ["text"], cost: { input: 0, output: 0, cacheRead: 0, cacheWrite: 0 }, contextWindow: 1000, maxTokens: 100 }],
    async *streamSimple() {
      const usage = { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, totalTokens: 0, cost: { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, total: 0 } };
      const message = { role: "assistant", content: [{ type: "text", text: "fine" }], api: "own-api", provider: "own", model: "m", usage, stopReason: "stop", timestamp: 1 };
      yield { type: "start", partial: message };
      yield { type: "done", reason: "stop", message };
    },
  });
};
