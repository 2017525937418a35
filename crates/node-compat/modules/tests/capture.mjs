/**
 * Writes the output of Node 22 for NAME.snippet.js to NAME.expected. `npm run capture -- NAME...` runs these, `npm run capture`
 * all; `host/NAME` is a snippet in the folder `host`.
 */

import { execFileSync } from "node:child_process";
import { readdirSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

if (!process.version.startsWith("v22.")) throw new Error(`expected output is that of Node 22, and this is ${process.version}`);
const folder = fileURLToPath(new URL("./", import.meta.url));
const names = process.argv.slice(2);
const snippets = (below) =>
  readdirSync(folder + below)
    .filter((file) => file.endsWith(".snippet.js"))
    .filter((file) => names.length === 0 || names.includes(below + file.replace(".snippet.js", "")));
for (const file of snippets("")) {
  const output = execFileSync(process.execPath, ["--no-warnings", file], { cwd: folder, env: { NO_COLOR: "1" } });
  writeFileSync(`${folder}${file.replace(".snippet.js", ".expected")}`, output);
}

// Snippets that access files and programs log to a file in a separate folder.
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const head = 'import { appendFileSync as append } from "node:fs"; import { format } from "node:util"; const log = (...args) => append("output.txt", `${format(...args)}\\n`);\n';
for (const file of snippets("host/")) {
  const cwd = mkdtempSync(join(tmpdir(), "snippet-"));
  writeFileSync(join(cwd, "snippet.mjs"), head + readFileSync(`${folder}host/${file}`, "utf8"));
  execFileSync(process.execPath, ["--no-warnings", "snippet.mjs"], { cwd, stdio: "inherit", env: { NO_COLOR: "1", PATH: "/usr/bin:/bin" } });
  writeFileSync(`${folder}host/${file.replace(".snippet.js", ".expected")}`, readFileSync(join(cwd, "output.txt")));
  rmSync(cwd, { recursive: true });
}
