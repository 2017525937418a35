import { existsSync, writeFileSync } from "node:fs";

/** Says when the other one has long stopped to look at its socket. */
export default (pi: any) =>
  pi.on("session_start", () => {
    const waits = setInterval(() => {
      if (!existsSync("entered")) return;
      clearInterval(waits);
      setTimeout(() => writeFileSync("deep inside", ""), 500);
    }, 20);
  });
