// References that keep their targets, and a registry that never calls back.
const target = { name: "kept" };
const reference = new WeakRef(target);
console.log(reference.deref() === target, typeof WeakRef, typeof FinalizationRegistry, Object.prototype.toString.call(reference));
const registry = new FinalizationRegistry(() => console.log("never"));
const token = {};
console.log(registry.register(target, "held", token), registry.unregister(token), registry.unregister(token));
for (const wrong of [() => new WeakRef(1), () => WeakRef(target), () => new FinalizationRegistry({}), () => registry.register(1, 2), () => registry.register(target, target)]) {
  try {
    wrong();
  } catch (error) {
    console.log(error.name);
  }
}
class Cache {
  #kept = new Map();
  set(key, value) { this.#kept.set(key, new WeakRef(value)); }
  get(key) { return this.#kept.get(key)?.deref(); }
}
const cache = new Cache();
cache.set("a", target);
console.log(cache.get("a"), cache.get("b"));
