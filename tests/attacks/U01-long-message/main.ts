/** Draws many times the size of the screen. */
export default (pi: any) =>
  pi.on("session_start", () => {
    pi.sendMessage({ customType: "long", content: "- *one* of `many`\n".repeat(20_000), display: true });
  });
