import { attempt } from "./attack";

// Each entry is 270 KB of text, and 90,000 lists.
export default (pi: any) => {
  pi.on("session_start", async () => {
    const lists = new Array(90_000).fill([]);
    await attempt("append", () => {
      for (let n = 0; n < 60; n++) pi.appendEntry("x", { lists });
    });
  });
};
