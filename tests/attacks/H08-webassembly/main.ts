import { attemptSync } from "./attack";
declare const WebAssembly: any;

// (module (memory (export "m") 1) (func (export "grow") (param i32) (result i32) (memory.grow (local.get 0))))
const bytes = Uint8Array.from(atob("AGFzbQEAAAABBgFgAX8BfwMCAQAFAwEAAQcMAgFtAgAEZ3JvdwAACggBBgAgAEAACw=="), (character) => character.charCodeAt(0));

function nameOf(work: () => unknown): string {
  try {
    return String(work());
  } catch (error: any) {
    return error.name;
  }
}

export default () => {
  attemptSync("truncated", () => {
    const names = new Set<string>();
    for (let end = 20; end < bytes.length - 1; end++) if (!WebAssembly.validate(bytes.slice(0, end))) names.add(nameOf(() => new WebAssembly.Module(bytes.slice(0, end))));
    return [...names].join();
  });
  attemptSync("flipped", () => {
    for (let at = 8; at < bytes.length; at++) {
      for (let bit = 0; bit < 8; bit++) {
        const changed = bytes.slice();
        changed[at]! ^= 1 << bit;
        const outcome = nameOf(() => Object.keys(new WebAssembly.Instance(new WebAssembly.Module(changed)).exports).length >= 0);
        if (!["true", "CompileError", "LinkError", "RangeError", "RuntimeError", "TypeError"].includes(outcome)) return outcome;
      }
    }
    return true;
  });
  // A section of four gigabytes, and a function section of as many functions.
  attemptSync("lengths", () => nameOf(() => new WebAssembly.Module(Uint8Array.of(0, 97, 115, 109, 1, 0, 0, 0, 1, 0xff, 0xff, 0xff, 0xff, 0x0f))) && nameOf(() => new WebAssembly.Module(Uint8Array.of(0, 97, 115, 109, 1, 0, 0, 0, 3, 5, 0xff, 0xff, 0xff, 0xff, 0x0f))));
  attemptSync("moved", () => {
    const memory = new WebAssembly.Memory({ initial: 1, maximum: 2000 });
    const held = memory.buffer;
    const view = new Uint8Array(held);
    const prototype: any = ArrayBuffer.prototype;
    const seen = ["transfer", "transferToFixedLength", "transferToImmutable"].map((name) => nameOf(() => prototype[name].call(held)));
    seen.push(nameOf(() => prototype.transfer.call(held, 0)), nameOf(() => prototype.resize.call(held, 10)));
    memory.grow(1000);
    view[0] = 1;
    return [...seen, view.length, memory.grow(0) / 1001].join(" ");
  });
  attemptSync("after", () => 3);
};
