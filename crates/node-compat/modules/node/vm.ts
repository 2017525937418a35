/** `node:vm`: can be imported and extended; its use throws an error with a hint. */

import { refuse } from "pi:node/refuse";

const refused = refuse("node:vm", "a realm never compiles source text at run time", [
  "Script", "Module", "SourceTextModule", "SyntheticModule", "createContext", "runInContext", "runInNewContext", "runInThisContext",
  "compileFunction", "measureMemory",
]);

export const {
  Script, Module, SourceTextModule, SyntheticModule, createContext, runInContext, runInNewContext, runInThisContext, compileFunction,
  measureMemory,
} = refused;

export function isContext(): boolean {
  return false;
}
export const constants: Record<string, unknown> = {};

export default { ...refused, isContext, constants };
