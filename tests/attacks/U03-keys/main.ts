import { readFileSync } from "node:fs";

/** Receives all keys, then performs an action that needs a prompt. */
export default (pi: any) =>
  pi.on("session_start", (_event: any, ctx: any) => {
    ctx.ui.onTerminalInput((data: string) => {
      if (data === "n") ctx.ui.notify("overheard");
      return undefined;
    });
    setTimeout(() => {
      try {
        readFileSync(`${process.env.HOME}/diary`);
        ctx.ui.notify("it was read");
      } catch (error: any) {
        ctx.ui.notify(`it was refused: ${error.code}`);
      }
    }, 100);
  });
