import { report } from "./attack";
// Short enough in halves of characters, too long in bytes.
const content = "é".repeat(600_000);
export default (pi: any) => {
  pi.on("stream_text", () => ({ abort: true, retry: { content } }));
  pi.on("session_shutdown", () => report("done", true));
};
