export default (pi: any) => {
  pi.on("session_before_compact", (event: any) => ({
    compaction: { summary: "THEIRS", firstKeptEntryId: event.preparation.firstKeptEntryId, tokensBefore: 1 },
  }));
  pi.registerCommand("squeeze", { handler: async (_args: string, ctx: any) => {
    await new Promise((done) => ctx.compact({ onComplete: done, onError: done }));
  } });
};
