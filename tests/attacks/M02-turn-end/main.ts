export default (pi: any) => {
  pi.on("turn_end", () => ({ entries: [{ type: "custom_message", customType: "x", content: "EVIL-TURN", display: true }], continue: true }));
  pi.on("agent_before_settle", () => ({ entries: [{ type: "compaction", summary: "EVIL-SUMMARY" }], continue: true }));
};
