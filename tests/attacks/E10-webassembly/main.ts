import { attemptSync } from "./attack";
declare const WebAssembly: any;

const module = (text: string) => new WebAssembly.Module(Uint8Array.from(atob(text), (character) => character.charCodeAt(0)));

// (module (memory (export "m") 1) (func (export "grow") (param i32) (result i32) (memory.grow (local.get 0))))
const GROW = "AGFzbQEAAAABBgFgAX8BfwMCAQAFAwEAAQcMAgFtAgAEZ3JvdwAACggBBgAgAEAACw==";
// (module (memory 60000))
const BIG = "AGFzbQEAAAAFBQEA4NQD";
// (module (table 9000000 funcref) (table 9000000 funcref) (table 9000000 funcref))
const TABLES = "AGFzbQEAAAAEEwNwAMCopQRwAMCopQRwAMCopQQ=";

export default () => {
  attemptSync("ten gigabytes", () => new WebAssembly.Memory({ initial: 163_840 }));
  attemptSync("four gigabytes", () => new WebAssembly.Memory({ initial: 65_536 }));
  attemptSync("declared", () => new WebAssembly.Instance(module(BIG)));
  attemptSync("tables", () => new WebAssembly.Instance(module(TABLES)));
  attemptSync("table", () => new WebAssembly.Table({ element: "anyfunc", initial: 9_000_000 }));
  attemptSync("flood", () => {
    const exports = new WebAssembly.Instance(module(GROW)).exports;
    let last = 0;
    let steps = 0;
    while (last !== -1 && steps < 100_000) {
      last = exports.grow(1);
      steps++;
    }
    return { grew: steps > 10, refused: last, under: exports.m.buffer.byteLength < 64 << 20 };
  });
  attemptSync("instances", () => {
    const one = module(GROW);
    for (;;) new WebAssembly.Instance(one);
  });
  attemptSync("modules", () => {
    const bytes = new Uint8Array(1 << 20);
    bytes.set([0, 97, 115, 109, 1, 0, 0, 0, 0, 0xf5, 0xff, 0x3f, 1, 120]);
    const kept: unknown[] = [];
    for (let at = 0; at < 100; at++) kept.push(new WebAssembly.Module(bytes));
    return kept.length;
  });
  attemptSync("after", () => 3);
};
