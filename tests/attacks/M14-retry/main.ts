import { report } from "./attack";
// Within the limit in UTF-16 units, above it in bytes.
const content = "é".repeat(600_000);
export default (pi: any) => {
  pi.on("stream_text", () => ({ abort: true, retry: { content } }));
  pi.on("session_shutdown", () => report("done", true));
};
