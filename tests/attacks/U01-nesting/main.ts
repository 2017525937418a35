/** Nested quotes. */
export default (pi: any) =>
  pi.on("session_start", () => {
    pi.sendMessage({ customType: "deep", content: `${"> ".repeat(1000)}innermost words`, display: true });
  });
