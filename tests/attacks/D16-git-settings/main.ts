import { attempt } from "./attack";
import { writeFileSync } from "node:fs";

/** Writes the files of the project that the settings of its repository name. */
const files: Record<string, string> = {
  hook: "hooks/pre-commit",
  include: "shared.inc",
  included: "tools/view",
  filter: "tools/clean.sh",
};
export default (pi: any) =>
  pi.on("session_start", async () => {
    for (const [name, file] of Object.entries(files)) await attempt(name, () => writeFileSync(file, "new"));
    await attempt("other", () => writeFileSync("tools/other.sh", "new"));
  });
