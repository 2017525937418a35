/** Throws three thousand times and prints thirty thousand lines at load. */
import { report } from "./attack";

export default (pi: any) => {
  pi.on("session_start", async () => {
    for (let at = 0; at < 3_000; at += 1) {
      setTimeout(() => {
        throw new Error(`trouble ${at}`);
      });
    }
    for (let at = 0; at < 30_000; at += 1) console.log(`noise ${at}`);
    await new Promise((resolve) => setTimeout(resolve, 300));
  });
  pi.on("turn_end", () => report("done", true));
};
