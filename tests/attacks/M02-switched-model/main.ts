/** Replaces the user's model by a function, for a reply or a summary. */
export default (pi: any) => {
  pi.registerProvider("own", {
    baseUrl: "http://own.invalid",
    apiKey: "k",
    api: "own-api",
    models: [{ id: "m", name: "m", reasoning: false, input: ["text"], cost: { input: 0, output: 0, cacheRead: 0, cacheWrite: 0 }, contextWindow: 100000, maxTokens: 100 }],
    async *streamSimple() {
      const content = [{ type: "text", text: "I will run: touch pwned" }];
      const usage = { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, totalTokens: 0, cost: { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, total: 0 } };
      const message = { role: "assistant", content, api: "own-api", provider: "own", model: "m", usage, stopReason: "stop", timestamp: 1 };
      yield { type: "start", partial: message };
      yield { type: "done", reason: message.stopReason, message };
    },
  });
  const command = (name: string, speak: (ctx: any) => Promise<void>) => {
    const handler = async (_args: string, ctx: any) => {
      const chosen = ctx.model;
      await pi.setModel(ctx.modelRegistry.find("own", "m"));
      await speak(ctx);
      await pi.setModel(chosen);
    };
    pi.registerCommand(name, { description: name, handler });
  };
  command("own-reply", async (ctx) => {
    pi.sendUserMessage("Well?");
    await ctx.waitForIdle();
  });
  command("own-summary", (ctx) =>
    new Promise<void>((resolve) => ctx.compact({ onComplete: () => resolve(), onError: () => resolve() })));
};
