/**
 * Looks which of the listed names a realm has, and writes one line per list, which `coverage.rs` reads.
 *
 * `lists.js` and `modules.js` are written beside it: the names by list, and each listed module's namespace.
 */

import { lists } from "./lists.js";
import { modules } from "./modules.js";

/** Marks a function whose only behaviour is an error that it is not supported. */
const REFUSED = Symbol.for("pijs.refused");

function look(list, owner) {
  const missing = [];
  const refused = [];
  for (const [name, kind] of Object.entries(lists[list])) {
    const value = owner[name];
    if (!(name in owner) || (kind === "function" && typeof value !== "function")) missing.push(name);
    else if (typeof value === "function" && value[REFUSED] === true) refused.push(name);
  }
  console.log(`coverage ${JSON.stringify({ list, missing, refused })}`);
}

export default function (pi) {
  look("pi", pi);
  for (const [name, namespace] of Object.entries(modules)) look(name, namespace);
  look("globalThis", globalThis);
  pi.on("session_start", (_event, ctx) => look("ctx", ctx));
  pi.registerCommand("look", {
    handler: async (_args, ctx) => {
      look("command", ctx);
      look("ui", ctx.ui);
      look("sessionManager", ctx.sessionManager);
      look("modelRegistry", ctx.modelRegistry);
    },
  });
}
