/** `node:sys`: the former name of `node:util`. */

export * from "node:util";
export { default } from "node:util";
