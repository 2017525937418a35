import { attemptSync } from "./attack";
declare const WebAssembly: any;

const module = (text: string) => new WebAssembly.Module(Uint8Array.from(atob(text), (character) => character.charCodeAt(0)));

// (module (func $f (export "f") (result i32) (i32.add (call $f) (i32.const 1))))
const DEEP = "AGFzbQEAAAABBQFgAAF/AwIBAAcFAQFmAAAKCQEHABAAQQFqCwALBG5hbWUBBAEAAWY=";
// (module (import "m" "f" (func $f)) (func (export "g") (call $f)))
const BACK = "AGFzbQEAAAABBAFgAAACBwEBbQFmAAADAgEABwUBAWcAAQoGAQQAEAALAAsEbmFtZQEEAQABZg==";

export default () => {
  attemptSync("inside", () => new WebAssembly.Instance(module(DEEP)).exports.f());
  attemptSync("between", () => {
    const exports: any = new WebAssembly.Instance(module(BACK), { m: { f: () => exports.g() } }).exports;
    return exports.g();
  });
  attemptSync("after", () => 3);
};
