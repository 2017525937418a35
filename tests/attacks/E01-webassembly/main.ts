const module = (text: string) => new WebAssembly.Module(Uint8Array.from(atob(text), (character) => character.charCodeAt(0)));
declare const WebAssembly: any;

// (module (func (export "spin") (loop $l (br $l))))
const LOOP = "AGFzbQEAAAABBAFgAAADAgEABwgBBHNwaW4AAAoJAQcAA0AMAAsLAA0EbmFtZQMGAQABAAFs";
// (module (func $spin (loop $l (br $l))) (start $spin))
const START = "AGFzbQEAAAABBAFgAAADAgEACAEACgkBBwADQAwACwsAFgRuYW1lAQcBAARzcGluAwYBAAEAAWw=";
// (module (import "m" "f" (func $f)) (func (export "g") (loop $l (call $f) (br $l))))
const BACK = "AGFzbQEAAAABBAFgAAACBwEBbQFmAAADAgEABwUBAWcAAQoLAQkAA0AQAAwACwsAEwRuYW1lAQQBAAFmAwYBAQEAAWw=";

const deeds: Record<string, () => unknown> = {
  export: () => new WebAssembly.Instance(module(LOOP)).exports.spin(),
  start: () => new WebAssembly.Instance(module(START)),
  import: () => {
    const inner = new WebAssembly.Instance(module(LOOP)).exports;
    const f = () => {
      try {
        inner.spin();
      } catch {
        console.log("caught");
      } finally {
        console.log("caught at last");
      }
    };
    return new WebAssembly.Instance(module(BACK), { m: { f } }).exports.g();
  },
};

export default (pi: any) =>
  pi.registerTool({
    name: "attack",
    description: "attacks",
    parameters: { type: "object", properties: { deed: { type: "string" } } },
    execute: async (_id: string, input: { deed: string }) => {
      try {
        return deeds[input.deed]!();
      } catch {
        console.log("caught outside");
      }
    },
  });
