// The text of each module is above its bytes.
const attempt = (body) => { try { return body(); } catch (error) { return `${error.name}: ${error.message}`; } };
const later = async (body) => { try { return await body(); } catch (error) { return `${error.name}: ${error.message}`; } };
const bytes = (text) => Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
const instance = (text, imports) => new WebAssembly.Instance(new WebAssembly.Module(bytes(text)), imports).exports;

console.log(Object.prototype.toString.call(WebAssembly), typeof WebAssembly, Object.keys(WebAssembly).filter((name) => /^(compile|validate|instantiate)/.test(name)).sort().join());
for (const name of ["Module", "Instance", "Memory", "Table", "Global"]) console.log(name, typeof WebAssembly[name], attempt(() => WebAssembly[name]()).slice(0, 10), Object.prototype.toString.call(WebAssembly[name].prototype), Object.getOwnPropertyNames(WebAssembly[name].prototype).sort().join());
for (const name of ["CompileError", "LinkError", "RuntimeError"]) { const error = new WebAssembly[name]("m"); console.log(name, error instanceof Error, error.name, error.message, String(error), Object.keys(error).length); }

/*
(module
  (func (export "add") (param i32 i32) (result i32) (i32.add (local.get 0) (local.get 1)))
  (func (export "long") (param i64) (result i64) (i64.mul (local.get 0) (i64.const 2)))
  (func (export "single") (param f32) (result f32) (local.get 0))
  (func (export "double") (param f64) (result f64) (f64.neg (local.get 0)))
  (func (export "pair") (param i32 i64) (result i64 i32 f64) (local.get 1) (local.get 0) (f64.const 0.5))
  (func (export "nothing"))
  (func (export "unsigned") (result i32) (i32.const -1)))
*/
const numbers = "AGFzbQEAAAABJQdgAn9/AX9gAX4BfmABfQF9YAF8AXxgAn9+A35/fGAAAGAAAX8DCAcAAQIDBAUGBzwHA2FkZAAABGxvbmcAAQZzaW5nbGUAAgZkb3VibGUAAwRwYWlyAAQHbm90aGluZwAFCHVuc2lnbmVkAAYKNAcHACAAIAFqCwcAIABCAn4LBAAgAAsFACAAmgsPACABIABEAAAAAAAA4D8LAgALBABBfws=";
const n = instance(numbers);
console.log(Object.keys(n).join(), Object.getPrototypeOf(n), Object.isFrozen(n), attempt(() => { "use strict"; n.add = 1; }).slice(0, 9));
console.log(n.add(1, 2), n.add(2 ** 31, 0), n.add("7", { valueOf: () => 5 }), n.add(1.9, undefined), n.add(), n.long(2n ** 62n), n.long(-1n), n.single(0.1), n.double(0), Object.is(n.double(0), -0), n.double(NaN), n.pair(3, 4n), n.nothing(), n.unsigned());
console.log(n.add.name, n.add.length, n.pair.name, n.pair.length, typeof n.add, n.add instanceof Function, Object.getPrototypeOf(n.add) === Function.prototype, "prototype" in n.add, attempt(() => new n.add(1, 2)).slice(0, 9));
console.log(attempt(() => n.long(5)).slice(0, 9), attempt(() => n.add(1n, 2)).slice(0, 9), attempt(() => n.add(Symbol("x"))).slice(0, 9), attempt(() => n.add({ valueOf() { throw new RangeError("mine"); } })));
console.log(n.add.call(null, 1, 1), Reflect.apply(n.add, undefined, [4, 5, 6]));

/*
(module
  (memory (export "memory") 1)
  (table 2 funcref)
  (type $t (func (result i32)))
  (func $g (param i32))
  (elem (i32.const 1) $g)
  (func (export "unreachable") unreachable)
  (func (export "divide") (param i32 i32) (result i32) (i32.div_s (local.get 0) (local.get 1)))
  (func (export "load") (param i32) (result i32) (i32.load (local.get 0)))
  (func (export "indirect") (param i32) (result i32) (call_indirect (type $t) (local.get 0)))
  (func (export "truncate") (param f64) (result i32) (i32.trunc_f64_s (local.get 0)))
  (func $deep (export "deep") (result i32) (i32.add (call $deep) (i32.const 1)))
  (func (export "fill") (param i32 i32) (memory.fill (local.get 0) (i32.const 7) (local.get 1))))
*/
const traps = "AGFzbQEAAAABIQdgAAF/YAF/AGAAAGACf38Bf2ABfwF/YAF8AX9gAn9/AAMJCAECAwQEBQAGBAQBcAACBQMBAAEHTAgGbWVtb3J5AgALdW5yZWFjaGFibGUAAQZkaXZpZGUAAgRsb2FkAAMIaW5kaXJlY3QABAh0cnVuY2F0ZQAFBGRlZXAABgRmaWxsAAcJBwEAQQELAQAKOggCAAsDAAALBwAgACABbQsHACAAKAIACwcAIAARAAALBQAgAKoLBwAQBkEBagsLACAAQQcgAfwLAAsAFwRuYW1lAQoCAAFnBgRkZWVwBAQBAAF0";
const t = instance(traps);
for (const [name, ...args] of [["unreachable"], ["divide", 1, 0], ["load", 65533], ["load", -1], ["indirect", 0], ["indirect", 1], ["indirect", 2], ["truncate", 1e10], ["truncate", NaN], ["deep"], ["fill", 65535, 2]]) console.log(name, args.join(), attempt(() => t[name](...args)));
try { t.unreachable(); } catch (error) { console.log(error instanceof WebAssembly.RuntimeError, error instanceof Error, error.constructor === WebAssembly.RuntimeError); }
console.log(t.divide(7, 2));

/*
(module
  (import "env" "log" (func $log (param i32 f64 i64)))
  (import "env" "next" (func $next (param i32) (result i32)))
  (import "env" "two" (func $two (result i32 i64)))
  (import "env" "base" (global $base i32))
  (import "env" "long" (global $long i64))
  (func (export "run") (param i32) (result i32)
    (call $log (local.get 0) (f64.const 1.5) (i64.const -7))
    (call $next (local.get 0)))
  (func (export "two") (result i64) (local i64) (call $two) (local.set 0) (drop) (local.get 0))
  (func (export "sum") (result i64) (i64.add (global.get $long) (i64.extend_i32_s (global.get $base))))
  (func (export "down") (param i32) (result i32) (call $next (local.get 0)))
  (export "next" (func $next)))
*/
const imports = "AGFzbQEAAAABFQRgA398fgBgAX8Bf2AAAn9+YAABfgI4BQNlbnYDbG9nAAADZW52BG5leHQAAQNlbnYDdHdvAAIDZW52BGJhc2UDfwADZW52BGxvbmcDfgADBQQBAwMBByEFA3J1bgADA3R3bwAEA3N1bQAFBGRvd24ABgRuZXh0AAEKMwQVACAARAAAAAAAAPg/QnkQACAAEAELCwEBfhACIQAaIAALCAAjASMArHwLBgAgABABCwAnBG5hbWUBEQMAA2xvZwEEbmV4dAIDdHdvBw0CAARiYXNlAQRsb25n";
const seen = []; let depth; const own = new Error("own");
const env = { base: 40, long: 2n, log(...args) { seen.push(args, this === undefined); }, next(value) { if (value === 99) throw own; if (value === 98) throw "text"; return value > 0 && value < 50 ? depth.down(value - 1) + 1 : value; }, two: () => [1.9, 2n ** 64n + 5n] };
const i = instance(imports, { env }); depth = i;
console.log(i.run(5), seen, i.two(), i.sum(), i.run(-3), i.next === env.next, i.next.name, i.next.length, i.next(7));
try { i.run(99); } catch (error) { console.log(error === own); } try { i.run(98); } catch (error) { console.log(error); } try { depth.down(99); } catch (error) { console.log(error === own, i.run(3)); }
console.log(attempt(() => instance(imports, { env: { ...env, two: () => 5 } }).two()), attempt(() => instance(imports, { env: { ...env, two: () => [1] } }).two()), attempt(() => instance(imports, { env: { ...env, two: () => [1, 2] } }).two()).slice(0, 9));
console.log(attempt(() => instance(imports))); console.log(attempt(() => instance(imports, {}))); console.log(attempt(() => instance(imports, { env: {} }))); console.log(attempt(() => instance(imports, { env: { ...env, base: undefined } }))); console.log(attempt(() => instance(imports, { env: { ...env, long: 5 } }))); console.log(attempt(() => instance(imports, { env: { ...env, next: n.long } }))); console.log(attempt(() => instance(imports, 5)));
console.log(instance(imports, { env: { ...env, next: Math.abs, log: n.nothing === undefined ? 0 : env.log } }).run(-12), instance(imports, { env: { ...env, next: (x) => n.add(x, 1) } }).run(60));

const memory = new WebAssembly.Memory({ initial: 1, maximum: 3 }); const first = memory.buffer; const view = new Uint8Array(first); view[3] = 9;
console.log(first.byteLength, memory.buffer === first, first instanceof ArrayBuffer, memory.grow(1), first.byteLength, view.length, memory.buffer === first, memory.buffer.byteLength, new Uint8Array(memory.buffer)[3], attempt(() => memory.grow(2)), attempt(() => memory.grow(-1)), memory.buffer.byteLength);
const same = memory.buffer; console.log(memory.grow(0), memory.buffer === same, same.byteLength);
console.log(attempt(() => memory.buffer.transfer()).slice(0, 9), attempt(() => memory.buffer.transfer(0)).slice(0, 9), attempt(() => structuredClone(memory.buffer, { transfer: [memory.buffer] })).split(":")[0], memory.buffer.byteLength, structuredClone(memory.buffer).byteLength);
for (const descriptor of [undefined, {}, { initial: "x" }, { initial: 65537 }, { initial: 2, maximum: 1 }, { initial: -1 }, 5]) console.log(attempt(() => new WebAssembly.Memory(descriptor)));
/*
(module
  (import "m" "memory" (memory 1))
  (import "m" "look" (func $look))
  (func (export "poke") (param i32 i32) (i32.store8 (local.get 0) (local.get 1)))
  (func (export "peek") (param i32) (result i32) (i32.load8_u (local.get 0)))
  (func (export "grow") (param i32) (result i32) (local i32)
    (local.set 1 (memory.grow (local.get 0))) (call $look) (local.get 1))
  (export "memory" (memory 0)))
*/
const growing = "AGFzbQEAAAABDgNgAABgAn9/AGABfwF/AhYCAW0GbWVtb3J5AgABAW0EbG9vawAAAwQDAQICBx8EBHBva2UAAQRwZWVrAAIEZ3JvdwADBm1lbW9yeQIACiIDCQAgACABOgAACwcAIAAtAAALDgEBfyAAQAAhARAAIAELAA4EbmFtZQEHAQAEbG9vaw==";
const shared = new WebAssembly.Memory({ initial: 1 }); let held = new Uint8Array(shared.buffer); const states = [];
const g = instance(growing, { m: { memory: shared, look: () => { states.push(held.length, shared.buffer.byteLength); held = new Uint8Array(shared.buffer); held[0] = 77; } } });
held[10] = 42; g.poke(11, 43); console.log(g.memory === shared, g.peek(10), held[11], g.grow(1), states, held.length, g.peek(0), g.grow(70000), held.length);
console.log(attempt(() => instance(growing, { m: { memory: new WebAssembly.Memory({ initial: 0 }), look() {} } })), attempt(() => instance(growing, { m: { memory: {}, look() {} } })));

/*
(module
  (table (export "t") 3 5 funcref)
  (table (export "x") 2 externref)
  (func $one (export "one") (result i32) (i32.const 1))
  (func $two (result i32) (i32.const 2))
  (elem (i32.const 0) $one $two)
  (type $r (func (result i32)))
  (func (export "call") (param i32) (result i32) (call_indirect (type $r) (local.get 0)))
  (func (export "same") (param externref) (result externref) (local.get 0))
  (func (export "self") (param funcref) (result funcref) (local.get 0))
  (func (export "isNull") (param externref) (result i32) (ref.is_null (local.get 0)))
  (func (export "put") (param i32 externref) (table.set 1 (local.get 0) (local.get 1)))
  (func (export "take") (param i32) (result externref) (table.get 1 (local.get 0))))
*/
const tables = "AGFzbQEAAAABIwdgAAF/YAF/AX9gAW8Bb2ABcAFwYAFvAX9gAn9vAGABfwFvAwkIAAABAgMEBQYECAJwAQMFbwACBzoJAXQBAAF4AQEDb25lAAAEY2FsbAACBHNhbWUAAwRzZWxmAAQGaXNOdWxsAAUDcHV0AAYEdGFrZQAHCQgBAEEACwIAAQozCAQAQQELBABBAgsHACAAEQAACwQAIAALBAAgAAsFACAA0QsIACAAIAEmAQsGACAAJQELABgEbmFtZQELAgADb25lAQN0d28EBAEAAXI=";
const b = instance(tables); const table = b.t;
console.log(table.length, table.get(0) === b.one, table.get(1) === table.get(1), table.get(1)(), table.get(2), b.t === table, attempt(() => table.get(3)), attempt(() => table.set(3, null)), attempt(() => table.set(0, () => 1)), attempt(() => table.grow(3)), table.grow(1, b.one), table.length, b.call(3), table.set(0, null), attempt(() => b.call(0)), table.set(2, n.unsigned), b.call(2));
const object = {}; console.log(b.same(object) === object, b.same(undefined), b.same(null), b.same("s"), Object.is(b.same(-0), -0), b.same(0), b.isNull(null), b.isNull(undefined), b.self(b.one) === b.one, b.self(null), attempt(() => b.self(() => 1)), b.put(1, object), b.take(1) === object, b.x.get(1) === object, b.x.get(0), b.take(0));
const made = new WebAssembly.Table({ element: "anyfunc", initial: 2 }); console.log(made.length, made.get(0), made.set(1, b.one), made.get(1) === b.one, attempt(() => new WebAssembly.Table({ element: "i32", initial: 1 })), attempt(() => new WebAssembly.Table({ initial: 1 })), attempt(() => new WebAssembly.Table({ element: "anyfunc", initial: 10000001 })), attempt(() => new WebAssembly.Table()), new WebAssembly.Table({ element: "externref", initial: 1 }, "v").get(0), attempt(() => new WebAssembly.Table({ element: "anyfunc", initial: 2 }, 5)));

const counter = new WebAssembly.Global({ value: "i32", mutable: true }, 5); const fixed = new WebAssembly.Global({ value: "i64" }, 7n);
counter.value = 2 ** 31; console.log(counter.value, counter.valueOf(), fixed.value, attempt(() => { fixed.value = 1n; }), attempt(() => { counter.value = 1n; }).slice(0, 9), new WebAssembly.Global({ value: "f64" }).value, new WebAssembly.Global({ value: "i64" }).value, attempt(() => new WebAssembly.Global({ value: "x" })), attempt(() => new WebAssembly.Global()), new WebAssembly.Global({ value: "f32" }, 0.1).value, new WebAssembly.Global({ value: "externref" }, object).value === object, new WebAssembly.Global({ value: "anyfunc" }).value);
/*
(module
  (import "g" "count" (global $c (mut i32)))
  (func (export "bump") (global.set $c (i32.add (global.get $c) (i32.const 1))))
  (global (export "own") (mut f64) (f64.const 2.5))
  (export "count" (global $c)))
*/
const globals = "AGFzbQEAAAABBAFgAAACDAEBZwVjb3VudAN/AQMCAQAGDQF8AUQAAAAAAAAEQAsHFgMEYnVtcAAAA293bgMBBWNvdW50AwAKCwEJACMAQQFqJAALAAsEbmFtZQcEAQABYw==";
const c = instance(globals, { g: { count: counter } }); c.bump(); console.log(counter.value, c.count === counter, c.own.value, (c.own.value = 3, c.own.value), attempt(() => instance(globals, { g: { count: 5 } })), attempt(() => instance(globals, { g: { count: fixed } })), attempt(() => instance(globals, { g: { count: new WebAssembly.Global({ value: "i64", mutable: true }, 1n) } })));

/*
(module
  (import "s" "begin" (func $begin))
  (global $g (mut i32) (i32.const 0))
  (func $start (call $begin) (global.set $g (i32.const 5)))
  (start $start)
  (func (export "get") (result i32) (global.get $g))
  (@custom "note" "\01\02") (@custom "note" "\03"))
*/
const started = "AGFzbQEAAAABCAJgAABgAAF/AgsBAXMFYmVnaW4AAAMDAgABBgYBfwFBAAsHBwEDZ2V0AAIIAQEKDwIIABAAQQUkAAsEACMACwAHBG5vdGUBAgAGBG5vdGUDABwEbmFtZQEPAgAFYmVnaW4BBXN0YXJ0BwQBAAFn";
const order = []; const s = instance(started, { s: { begin: () => order.push("begin") } }); console.log(s.get(), order, Object.keys(s), attempt(() => instance(started, { s: { begin() { throw new TypeError("from start"); } } })));
const module = new WebAssembly.Module(bytes(started)); console.log(WebAssembly.Module.exports(module), WebAssembly.Module.imports(module), WebAssembly.Module.customSections(module, "note").map((section) => [...new Uint8Array(section)]), WebAssembly.Module.customSections(module, "none"), WebAssembly.Module.imports(new WebAssembly.Module(bytes(imports))).map((row) => row.kind).join(), attempt(() => WebAssembly.Module.exports({})), attempt(() => WebAssembly.Module.customSections(module)));

console.log(WebAssembly.validate(bytes(numbers)), WebAssembly.validate(new Uint8Array([0, 97, 115, 109])), WebAssembly.validate(new Uint8Array()), attempt(() => WebAssembly.validate("x")), WebAssembly.validate(bytes(numbers).buffer));
for (const broken of [new Uint8Array(), new Uint8Array([0, 97, 115]), new Uint8Array([1, 2, 3, 4, 5, 6, 7, 8]), new Uint8Array([0, 97, 115, 109, 2, 0, 0, 0]), "text", undefined]) console.log(attempt(() => new WebAssembly.Module(broken)));
console.log(attempt(() => new WebAssembly.Module(bytes(numbers).slice(0, 60))).split(":").slice(0, 2).join(), attempt(() => new WebAssembly.Instance({})));
const both = await WebAssembly.instantiate(bytes(numbers)); const one = await WebAssembly.instantiate(both.module); console.log(both.module instanceof WebAssembly.Module, both.instance instanceof WebAssembly.Instance, both.instance.exports.add(3, 4), one instanceof WebAssembly.Instance, one.exports.add(1, 1), Object.keys(both).join());
console.log(await later(() => WebAssembly.instantiate(new Uint8Array([1, 2, 3, 4, 5, 6, 7, 8])))); console.log(await later(() => WebAssembly.compile(new Uint8Array()))); console.log(await later(() => WebAssembly.instantiate(bytes(imports)))); console.log(await later(() => WebAssembly.instantiate(bytes(imports), { env: {} }))); console.log(await later(() => WebAssembly.instantiate(5))); console.log(await later(() => WebAssembly.compile()));
const wasm = (type, init = {}) => new Response(bytes(numbers), { headers: type === null ? {} : { "content-type": type }, ...init });
const streamed = await WebAssembly.instantiateStreaming(wasm("application/wasm")); console.log(streamed.instance.exports.add(20, 1), (await WebAssembly.compileStreaming(Promise.resolve(wasm("application/wasm")))) instanceof WebAssembly.Module);
for (const bad of [wasm("text/plain"), wasm("application/wasm", { status: 404, headers: { "content-type": "application/wasm" } }), 5]) try { await WebAssembly.compileStreaming(bad); } catch (error) { console.log(error.name, error.code, error.message.slice(0, 70)); }

/*
(module
  (memory 1)
  (func $loop (param i32 i32) (result i32)
    (if (result i32) (i32.eqz (local.get 0)) (then (local.get 1))
      (else (return_call $loop (i32.sub (local.get 0) (i32.const 1)) (i32.add (local.get 1) (i32.const 2))))))
  (func (export "tail") (param i32) (result i32) (return_call $loop (local.get 0) (i32.const 0)))
  (func (export "simd") (param i32) (result i32)
    (i32x4.extract_lane 2 (i32x4.add (i32x4.splat (local.get 0)) (v128.const i32x4 1 2 3 4))))
  (func (export "bulk") (result i32) (memory.fill (i32.const 8) (i32.const 5) (i32.const 4)) (memory.copy (i32.const 0) (i32.const 8) (i32.const 4)) (i32.load (i32.const 0)))
  (func (export "saturate") (param f64) (result i32) (i32.trunc_sat_f64_s (local.get 0)))
  (func (export "extend") (param i32) (result i32) (i32.extend8_s (local.get 0)))
  (func (export "vector") (param v128)))
*/
const modern = "AGFzbQEAAAABGQVgAn9/AX9gAX8Bf2AAAX9gAXwBf2ABewADCAcAAQECAwEEBQMBAAEHMwYEdGFpbAABBHNpbWQAAgRidWxrAAMIc2F0dXJhdGUABAZleHRlbmQABQZ2ZWN0b3IABgpsBxcAIABFBH8gAQUgAEEBayABQQJqEgALCwgAIABBABIACx4AIAD9Ef0MAQAAAAIAAAADAAAABAAAAP2uAf0bAgsaAEEIQQVBBPwLAEEAQQhBBPwKAABBACgCAAsGACAA/AILBQAgAMALAgALAA4EbmFtZQEHAQAEbG9vcA==";
const m = instance(modern); console.log(m.tail(200000), m.simd(40), m.bulk(), m.saturate(1e10), m.saturate(NaN), m.extend(255), attempt(() => m.vector(1)));
