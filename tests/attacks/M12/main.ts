/** Restarts the model at every word. */
let asked = 0;

export default (pi: any) =>
  pi.on("stream_text", () => {
    asked += 1;
    return { abort: true, retry: { role: "system", content: `not good enough (${asked})` } };
  });
