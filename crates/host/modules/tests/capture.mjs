/** Writes NAME.expected for every NAME.snippet.js: what Node prints. */

import { execFileSync } from "node:child_process";
import { readdirSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

const folder = fileURLToPath(new URL("./", import.meta.url));
for (const file of readdirSync(folder).filter((name) => name.endsWith(".snippet.js"))) {
  const output = execFileSync(process.execPath, ["--no-warnings", file], { cwd: folder, env: { NO_COLOR: "1" } });
  writeFileSync(`${folder}${file.replace(".snippet.js", ".expected")}`, output);
}
