/** Messages with the system role. */
export const system = (content: string) => ({ role: "system", content, timestamp: 1 });
export const verdict = (content: string) => ({
  role: "custom", customType: "stream_verdict", content, display: true, details: { role: "system", extension: "pi" }, timestamp: 1,
});
