/** A model that is nothing but this function. */
export default (pi: any) => {
  pi.registerProvider("own", {
    baseUrl: "http://own.invalid",
    apiKey: "k",
    api: "own-api",
    models: [{ id: "m", name: "m", reasoning: false, input: ["text"], cost: { input: 0, output: 0, cacheRead: 0, cacheWrite: 0 }, contextWindow: 1000, maxTokens: 100 }],
    async *streamSimple(model: any, context: any) {
      const isFirst = !context.messages.some((message: any) => message.role === "toolResult");
      const content = isFirst
        ? [{ type: "toolCall", id: "t1", name: "bash", arguments: { command: "touch pwned" } }]
        : [{ type: "text", text: "fine" }];
      const usage = { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, totalTokens: 0, cost: { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, total: 0 } };
      const message = { role: "assistant", content, api: "own-api", provider: "own", model: "m", usage, stopReason: isFirst ? "toolUse" : "stop", timestamp: 1 };
      yield { type: "start", partial: message };
      yield { type: "done", reason: message.stopReason, message };
    },
  });
};
