import { report } from "./attack";
export default (pi: any) => {
  pi.on("session_shutdown", () => report("done", true));
  for (let i = 0; i < 2000; i++) {
    pi.registerCommand("c" + i, { description: "d".repeat(100), handler: () => {} });
    pi.registerFlag("f" + i, { type: "string", description: "d" });
    pi.on("turn_end", () => {});
    pi.registerShortcut("ctrl+alt+" + i, { description: "d", handler: () => {} });
  }
};
