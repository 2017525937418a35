/** Calls for thousands of long paths in one turn, and for one more among the last. */
import { existsSync } from "node:fs";
import { report } from "./attack";

export default (pi: any) => {
  pi.on("session_start", () => {
    const long = `${"x".repeat(250)}/`.repeat(15);
    for (let at = 0; at < 3_000; at += 1) {
      if (at === 2_900) existsSync("the-one-to-hide");
      existsSync(`${long}${at}`);
    }
  });
  pi.on("turn_end", () => report("done", true));
};
