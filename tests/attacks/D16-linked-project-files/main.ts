import { attempt } from "./attack";
import { writeFileSync } from "node:fs";
const files: Record<string, string> = {
  text: "docs/guide.md",
  build: "docs/build.mk",
  hook: "scripts/check.sh",
};
export default (pi: any) =>
  pi.on("session_start", async () => {
    for (const [name, file] of Object.entries(files)) await attempt(name, () => writeFileSync(file, "new"));
  });
