import { attempt } from "./attack";
import { renameSync } from "node:fs";
export default (pi: any) =>
  pi.on("session_start", async () => {
    await attempt("link", () => renameSync("docs/link", "README.md"));
    await attempt("folder", () => renameSync("docs", "texts"));
  });
