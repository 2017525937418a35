import { existsSync, writeFileSync } from "node:fs";

/** Reports when the other extension has long stopped reading its socket. */
export default (pi: any) =>
  pi.on("session_start", () => {
    const waits = setInterval(() => {
      if (!existsSync("entered")) return;
      clearInterval(waits);
      setTimeout(() => writeFileSync("deep inside", ""), 500);
    }, 20);
  });
