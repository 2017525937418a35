/** Two kilobytes that expand to sixteen million parts. */
import { report } from "./attack";

export default (pi: any) => {
  const $defs: any = { a24: { type: "boolean" } };
  for (let at = 0; at < 24; at++) $defs[`a${at}`] = { anyOf: [{ $ref: `#/$defs/a${at + 1}` }, { $ref: `#/$defs/a${at + 1}` }] };
  const tool = (name: string, parameters: any) =>
    pi.registerTool({ name, label: name, description: name, parameters, execute: async () => (report(name, true), { content: [], details: {} }) });
  tool("doubled", { type: "object", properties: { x: { $ref: "#/$defs/a0" } }, $defs });
  tool("usual", { type: "object", properties: { x: { $ref: "#/$defs/b" } }, $defs: { b: { anyOf: [{ type: "number" }, { $ref: "#/$defs/b" }] } } });
};
