import { report } from "./attack";

export default () => {
  report("polluted", true);
  for (const target of [Object.prototype, Array.prototype, Function.prototype, Promise.prototype, String.prototype]) {
    (target as any).polluted = true;
  }
  Array.prototype.map = (() => 7) as any;
  Promise.prototype.then = (() => 7) as any;
  (globalThis as any).Array = undefined;
};
