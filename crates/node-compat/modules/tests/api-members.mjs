/**
 * Lists the members of pi's extension API from its real declarations: names, kinds and how many arguments a
 * call needs. The output is `fixtures/api/members-VERSION.json`, with which tests compare the host's API.
 *
 *     node api-members.mjs DIR_OF_PI_CODING_AGENT > fixtures/api/members-0.87.1.json
 */

import path from "node:path";
import ts from "typescript";

const root = path.resolve(process.argv[2]);
const core = path.join(root, "dist/core");
const program = ts.createProgram(
  [path.join(core, "extensions/types.d.ts"), path.join(core, "session-manager.d.ts"), path.join(core, "model-registry.d.ts"),
    path.join(core, "model-runtime.d.ts")],
  { skipLibCheck: true, moduleResolution: ts.ModuleResolutionKind.Bundler, module: ts.ModuleKind.ESNext, allowImportingTsExtensions: true, noEmit: true },
);
const checker = program.getTypeChecker();

function declared(file, name) {
  const source = program.getSourceFile(path.join(core, file));
  const symbol = checker.getExportsOfModule(checker.getSymbolAtLocation(source)).find((found) => found.name === name);
  return checker.getDeclaredTypeOfSymbol(symbol);
}

function isHidden(symbol) {
  const hidden = ts.ModifierFlags.Private | ts.ModifierFlags.Protected;
  return symbol.name.startsWith("_") || symbol.name.startsWith("#") ||
    (symbol.declarations ?? []).some((declaration) => ts.getCombinedModifierFlags(declaration) & hidden);
}

/** Returns the members of a type. A method has the smallest number of arguments of its overloads; other members are values. */
function members(type) {
  const found = {};
  for (const symbol of checker.getPropertiesOfType(type)) {
    if (isHidden(symbol)) continue;
    const signatures = checker.getTypeOfSymbol(symbol).getCallSignatures();
    found[symbol.name] = signatures.length === 0 ? "value" : Math.min(...signatures.map((signature) => signature.minArgumentCount ?? required(signature)));
  }
  return Object.fromEntries(Object.entries(found).sort(([a], [b]) => (a < b ? -1 : 1)));
}

function required(signature) {
  return signature.parameters.filter((parameter) => {
    const [declaration] = parameter.declarations ?? [];
    return !(declaration?.questionToken || declaration?.initializer || declaration?.dotDotDotToken);
  }).length;
}

const types = "extensions/types.d.ts";
const lists = {
  pi: members(declared(types, "ExtensionAPI")),
  ctx: members(declared(types, "ExtensionContext")),
  command: members(declared(types, "ExtensionCommandContext")),
  replaced: members(declared(types, "ReplacedSessionContext")),
  ui: members(declared(types, "ExtensionUIContext")),
  sessionManager: members(declared("session-manager.d.ts", "SessionManager")),
  modelRegistry: members(declared("model-registry.d.ts", "ModelRegistry")),
  modelRuntime: members(declared("model-runtime.d.ts", "ModelRuntime")),
};
console.log(JSON.stringify(lists, null, 1));
