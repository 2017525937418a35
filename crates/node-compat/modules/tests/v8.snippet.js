import v8 from "node:v8";
import { Buffer } from "node:buffer";

const hex = (value) => v8.serialize(value).toString("hex");
const tried = (work) => {
  try {
    return work();
  } catch (error) {
    return `${error.name} ${error.code}: ${error.message}`;
  }
};
const say = (name, work) => console.log(name, JSON.stringify(tried(work), (_, value) => (value === undefined ? "<undefined>" : typeof value === "bigint" ? `${value}n` : value)));
const stacked = (error, members) => Object.assign(Object.defineProperty(error, "stack", { value: "st" }), members);
const cyclic = {};
cyclic.self = cyclic;
const hollow = [];
hollow[5] = 1;

const values = {
  undefined: undefined, null: null, true: true, one: 1, minus: -1, small: 2 ** 30, large: 2 ** 31, least: -(2 ** 31), half: 1.5, zero: -0,
  nan: NaN, bigint: 1n, negative: -300n, wide: 2n ** 70n, nothing: 0n, text: "abc", latin: "é", euro: "€", even: ["€"], odd: [1, "€"],
  object: { a: 1, b: "x" }, numbered: { 2: 1, a: 2 }, array: [1, 2], hole: [1, , 2], named: Object.assign([1], { x: 2 }), hollow,
  empty: [], element: [undefined], date: new Date(5), regexp: /x/gimsuy, map: new Map([[1, { a: 2 }]]), set: new Set([1]),
  bytes: new Uint8Array([1, 2]), buffer: Buffer.from([1, 2]), floats: new Float64Array([1]), view: new DataView(new ArrayBuffer(3), 1),
  memory: new ArrayBuffer(2), bigints: new BigInt64Array([1n]), objects: [new Number(1), new String("s"), new Boolean(true), Object(1n)],
  error: stacked(new Error("m")), type: stacked(new TypeError("m")), cause: stacked(new Error("m", { cause: { a: 1 } })),
  silent: stacked(new Error()), same: [cyclic, cyclic], texts: ["abc", "abc"], getter: { get a() { return 3; } },
  symbols: { [Symbol("a")]: 1, b: 2 }, bare: Object.assign(Object.create(null), { a: 1 }), instance: new (class A { x = 1; })(),
};
for (const [name, value] of Object.entries(values)) say(name, () => hex(value));
for (const [name, value] of Object.entries(values)) console.log(name, "back", v8.deserialize(v8.serialize(value)));
for (const value of [Symbol("q"), Promise.resolve(), new WeakMap(), (function () { return arguments; })(1)]) say("refused", () => hex(value));
for (const bytes of ["aa", "ff0f", "ff0f6f2201", "ff634902", "4902", "ff0c4902", "ff", "", "ff0f5e05", "ff0f41ffffff7f", "ff0f7a", "ff0f3b4902"]) say(`broken ${bytes}`, () => v8.deserialize(Buffer.from(bytes, "hex")));
for (const bytes of ["ff0d6f22016149027b01", "ff0f49020000", "ff0f5505", "ff0f5303616263", "ff0f6f2209" + Buffer.from("__proto__").toString("hex") + "49027b01"]) say(`read ${bytes}`, () => [v8.deserialize(Buffer.from(bytes, "hex")), Object.keys(v8.deserialize(Buffer.from(bytes, "hex")))]);
say("text", () => v8.deserialize("x"));
say("memory", () => v8.deserialize(new Uint8Array(v8.serialize({ a: 1 })).buffer));
say("parts", () => {
  const written = new v8.Serializer();
  written.writeHeader();
  written.writeValue({ a: new Uint8Array([1]) });
  written.writeUint32(300);
  written.writeUint64(1, 2);
  written.writeDouble(1.5);
  written.writeRawBytes(Buffer.from("zz"));
  const bytes = written.releaseBuffer();
  const read = new v8.Deserializer(bytes);
  return [bytes.toString("hex"), read.readHeader(), read.getWireFormatVersion(), read.readValue().a, read.readUint32(), read.readUint64(), read.readDouble(), read.readRawBytes(2).toString()];
});
say("views", () => {
  const { a, b, c, d } = v8.deserialize(v8.serialize({ a: new Uint8Array([1, 2]), b: Buffer.from("x"), c: new Float32Array([1]), d: new DataView(new ArrayBuffer(2)) }));
  return [a.constructor.name, [...a], Buffer.isBuffer(b), String(b), c.constructor.name, [...c], d.constructor.name, d.byteLength];
});
say("own", () => {
  class Own extends v8.DefaultSerializer {
    _writeHostObject() {
      this.writeUint32(9);
      this.writeUint32(7);
    }
  }
  const own = new Own();
  own.writeHeader();
  own.writeValue(new Uint8Array(2));
  return own.releaseBuffer().toString("hex");
});
say("keys", () => [Object.keys(v8).sort(), Object.keys(v8.getHeapStatistics()), v8.getHeapSpaceStatistics().map((space) => space.space_name), v8.isStringOneByteRepresentation("é"), v8.isStringOneByteRepresentation("€")]);
