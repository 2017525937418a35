import util, { inspect, format } from "node:util";

const show = (value, options) => console.log(inspect(value, options));

for (const value of [undefined, null, true, 0, -0, 1.5, NaN, 10n, "it's", 'say "x"', "a'b\"c", "a\nb\t\\\u0001\u007f\ud800", Symbol("s"), Symbol()]) show(value);
show({}); show([]); show({ a: 1, "b-c": 2, 3: 4, [Symbol("k")]: 5 });
show([1, 2, , 4, , ,]); show(Object.assign([1, 2], { extra: true }));
show({ a: { b: { c: { d: 1 } } } }); show({ a: { b: { c: { d: 1 } } } }, { depth: 0 }); show({ a: { b: { c: { d: [1] } } } }, { depth: null });
show([[[[1]]]]); show({ a: [[[1]]] });
show(new Map([["a", 1], [{ k: 1 }, { v: [1, 2] }]])); show(new Set([1, "a", { x: 1 }])); show(new Map()); show(new Set());
show([new Map([["a", new Map([["b", new Map([["c", 1]])]])]])]);
show(new Date(0)); show(new Date(NaN)); show(/a\/b/gi); show(Object.assign(/x/, { y: 1 }));
show(() => 1); show(function named() {}); show(async () => 1); show(function* gen() {}); show(async function* agen() {}); show(Object.assign(() => 1, { p: 1 }));
class A { constructor() { this.x = 1; } get y() { return 2; } }
class B extends A { constructor() { super(); this.z = [1]; } }
show(A); show(B); show(new A()); show(new B()); show({ A, inner: new B() }); show(class {}); show(Object.assign(class Q {}, { s: 1 }));
show(Map); show(Object); show(Math); show(JSON); show(globalThis.Reflect);
show(Object.create(null)); show(Object.assign(Object.create(null), { a: 1 })); show(Object.create({})); show(Object.create(A.prototype));
show({ get a() { return 1; }, set b(v) {}, get c() { return 1; }, set c(v) {} }); show({ get a() { return { q: 1 }; } }, { getters: true });
const cycle = { name: "c" }; cycle.self = cycle; cycle.list = [cycle, { up: cycle }]; show(cycle);
const two = { a: {}, b: {} }; two.a.b = two.b; two.b.a = two.a; show(two);
const m = new Map(); m.set("m", m); show(m);
show(Array.from({ length: 120 }, (_, i) => i)); show(Array.from({ length: 30 }, (_, i) => i * 37)); show(Array.from({ length: 10 }, (_, i) => "item" + i));
show(["apple", "banana", "kiwi", "fig", "watermelon", "grape", "pear"]); show(Array.from({ length: 27 }, (_, i) => "x".repeat(i % 5)));
show("x".repeat(200)); show(["line one\nline two is longer than that and it goes on and on", "b"]); show({ text: "first line of the text\nsecond line of the text\nthird line of the text\nfourth line" });
show({ a: "x".repeat(30), b: "y".repeat(30), c: "z".repeat(30) }); show({ a: 1, b: { c: 2, d: { e: 3 } }, f: [1, 2, { g: 4 }] });
show({ users: [{ id: 1, name: "Ann", tags: ["x", "y"] }, { id: 2, name: "Bob", tags: [] }], total: 2 });
show(new Uint8Array([1, 2, 3])); show(new Float64Array(2)); show(new BigInt64Array(1)); show(new ArrayBuffer(4)); show(new DataView(new ArrayBuffer(2)));
show(Buffer.from("héllo")); show({ b: Buffer.alloc(60) });
show(Promise.resolve(4)); show(new Promise(() => {})); show(new WeakMap()); show(new WeakSet());
show(Object(1)); show(Object("str")); show(Object(true)); show(Object(2n)); show(Object(Symbol("b")));
show(new Map([[1, 2]]).entries()[Symbol.toStringTag]);
class Tagged { get [Symbol.toStringTag]() { return "T"; } } show(new Tagged()); show({ [Symbol.toStringTag]: "own" });
for (const [name, tag] of [["PrivateKey", "Key"], ["Mapper", "Map"], ["MapKeyMap", "Key"], ["Keys", "Key"], ["Key2", "Key"]]) show(new ({ [name]: class { get [Symbol.toStringTag]() { return tag; } } })[name]());
class Custom { [inspect.custom](depth, options, ins) { return `Custom<${ins({ a: 1 }, options)}>`; } } show(new Custom()); show({ c: new Custom() }); show([new Custom()]);
show({ [inspect.custom]: () => ({ other: 1 }) });
class MyMap extends Map {} show(new MyMap([["k", 1]])); class MyArray extends Array {} show(MyArray.from([1])); class MySet extends Set {} show(new MySet());
const noStack = new Error("boom"); noStack.stack = "Error: boom"; show(noStack); show({ e: noStack });
const withProps = new TypeError("bad"); withProps.stack = "TypeError: bad\n    at x (y:1:2)"; withProps.code = "E"; show(withProps); show([withProps]);
const caused = new Error("outer", { cause: noStack }); caused.stack = "Error: outer\n    at a (b:1:1)"; show(caused);
class OwnError extends Error {} const own = new OwnError("mine"); own.stack = "Error: mine\n    at a (b:1:1)"; show(own);
show({ a: 1n, b: undefined, c: null }, { compact: false }); show({ a: [1, 2], b: { c: 1 } }, { compact: true }); show({ b: 1, a: 2, c: { z: 1, y: 2 } }, { sorted: true });
show({ a: 1, s: "x", d: new Date(0), r: /x/, n: null, u: undefined, f() {}, y: Symbol("q") }, { colors: true });
show([1, 2, 3, 4], { maxArrayLength: 2 }); show("abcdef", { maxStringLength: 3 }); show(123456.789, { numericSeparator: true }); show(new Set([1, 2, 3]), { maxArrayLength: 1 });
show([1], { showHidden: true }); show(Object.defineProperty({}, "hid", { value: 1 }), { showHidden: true });
(function () { show(arguments); })(1, "a");
show({ "a b": 1, valid_id: 2, "1x": 3, __proto__x: 4 }); show([undefined, null, , "x"]); show({ f: function () {}, g: () => {}, h: class {} });

console.log(format("%s %d %i %f %j %o %O %%", "str", 42, 42.9, "1.5", { a: 1 }, [1], { b: { c: {} } }));
console.log(format("%s", null), format("%s", undefined), format("%s", { a: 1 }), format("%s", [1, [2, [3]]]), format("%s", Symbol("x")), format("%s", -0), format("%s", 5n), format("%s", new A()), format("%s", { toString: () => "own" }));
console.log(format("a", "b", { c: 1 }), format(1, 2, "3"), format("%d", "x"), format("100%"), format("%s"), format("%x", 1), format("%c styled", "css"), format("%%s", 1), format("%s %s", "one"));
console.log("multi", { a: 1 }, [1, 2], "x", null); console.log(); console.log("%s is %d", "it", 3, "extra");
console.log(util.isDeepStrictEqual({ a: [1, new Map([["x", new Set([1])]])] }, { a: [1, new Map([["x", new Set([1])]])] }), util.isDeepStrictEqual([1], ["1"]), util.isDeepStrictEqual(NaN, NaN), util.isDeepStrictEqual(0, -0), util.isDeepStrictEqual(new Date(1), new Date(1)), util.isDeepStrictEqual(new Set([{ a: 1 }]), new Set([{ a: 1 }])), util.isDeepStrictEqual({ a: undefined }, {}));
console.log(util.stripVTControlCharacters("\u001b[31mred\u001b[0m \u001b]8;;http://x\u0007l\u001b]8;;\u0007"), JSON.stringify(util.styleText(["bold", "underline"], "y", { validateStream: false })));
console.log(util.types.isDate(new Date()), util.types.isRegExp(/x/), util.types.isPromise(Promise.resolve()), util.types.isMap(new Map()), util.types.isUint8Array(Buffer.alloc(1)), util.types.isTypedArray(new Float32Array(1)), util.types.isAsyncFunction(async () => 1), util.types.isDate({}));
const parsed = util.parseArgs({ args: ["-f", "--bar", "b", "pos", "--no", "-xy", "--", "-z"], options: { foo: { type: "boolean", short: "f" }, bar: { type: "string" }, no: { type: "boolean" }, xa: { type: "boolean", short: "x" }, ya: { type: "boolean", short: "y" }, multi: { type: "string", multiple: true, default: ["d"] } }, allowPositionals: true });
console.log(parsed.values, parsed.positionals);
for (const args of [["--nope"], ["pos"], ["--bar"], ["--foo=1"]]) try { util.parseArgs({ args, options: { foo: { type: "boolean" }, bar: { type: "string" } } }); } catch (error) { console.log(error.code, error.message); }
console.table([{ a: 1, b: "x" }, { a: 2, c: true }]); console.table([1, "two"]); console.group("G"); console.log("in\nside"); console.groupEnd(); console.count(); console.count("x"); console.count();
