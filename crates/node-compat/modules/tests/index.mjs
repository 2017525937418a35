/** Rewrites index.txt from the files in web/ and node/. Modules named here are builtins; the others are `pi:node/...`. */

import { readdirSync, writeFileSync } from "node:fs";

const BUILTIN = /^node\/(?!(?:callable|environment|errors|refuse|resolve|terminals)\.)(?:[a-z_0-9]+|fs\/promises|timers\/promises|path\/(?:posix|win32)|util\/types|assert\/strict|(?:dns|inspector|readline|stream)\/promises|stream\/(?:web|consumers))\.ts$/;
const SPECIAL = { "web/index.ts": "pi:web", "web/hostcall.ts": "pi:hostcall", "web/undici.ts": "undici" };

const root = new URL("../", import.meta.url);
const lines = ["web", "node"]
  .flatMap((folder) => readdirSync(new URL(folder, root), { recursive: true }).map((name) => `${folder}/${name}`))
  .filter((path) => path.endsWith(".ts"))
  .map((path) => {
    const bare = path.slice(0, -3);
    const specifier = SPECIAL[path] ?? (BUILTIN.test(path) ? bare.replace("node/", "node:") : `pi:${bare}`);
    return `${specifier} ${path}`;
  })
  .sort();
writeFileSync(new URL("index.txt", root), `${lines.join("\n")}\n`);
