import { Buffer } from "node:buffer";
import { StringDecoder } from "node:string_decoder";

const attempt = (body) => { try { return body(); } catch (error) { return `${error.name} ${error.code}: ${error.message}`; } };
const text = "héllo wörld €😀";
for (const encoding of ["utf8", "hex", "base64", "base64url", "latin1", "ascii", "utf16le", "ucs2", "binary"]) {
  const bytes = Buffer.from(text, encoding);
  console.log(encoding, bytes.length, Buffer.byteLength(text, encoding), bytes.toString("hex"), JSON.stringify(Buffer.from(text).toString(encoding)));
}
console.log(Buffer.from("68656c6c6fzz", "hex"), Buffer.from("aGVsbG8", "base64").toString(), Buffer.from("aGVs\nbG8=", "base64").toString(), Buffer.from("_-8", "base64url"), Buffer.from("YQ==YQ==", "base64").toString());
console.log(Buffer.from([1, 2, 256, -1, "3"]), Buffer.from(new Uint8Array([1, 2])), Buffer.from(new Uint16Array([1, 256]).buffer), Buffer.from({ type: "Buffer", data: [9] }), Buffer.from(new String("s")), Buffer.from({ length: 2, 0: 5, 1: 6 }));
console.log(Buffer.alloc(3), Buffer.alloc(5, "ab"), Buffer.alloc(3, 1), Buffer.concat([Buffer.from("a"), new Uint8Array([98])]), Buffer.concat([Buffer.from("abc")], 2), Buffer.concat([Buffer.from("a")], 3));
const shared = new ArrayBuffer(4); const view = Buffer.from(shared, 1, 2); view[0] = 7; console.log(new Uint8Array(shared), view.length, view.byteOffset);
const b = Buffer.from("abcdef"); const s = b.slice(1, 4); s[0] = 65; console.log(b.toString(), s.toString(), b.subarray(-2).toString(), b.subarray(2).constructor.name, s instanceof Buffer, s instanceof Uint8Array, b.map((x) => x + 1).toString());
console.log(b.equals(Buffer.from("aAcdef")), Buffer.compare(Buffer.from("a"), Buffer.from("b")), Buffer.from("b").compare(Buffer.from("a")), Buffer.from("ab").compare(Buffer.from("xaby"), 1, 3));
const h = Buffer.from("this is a buffer, this is it");
console.log(h.indexOf("is"), h.indexOf("is", 3), h.lastIndexOf("is"), h.indexOf(Buffer.from("buffer")), h.indexOf(97), h.includes("zz"), h.indexOf(""), h.lastIndexOf("this", 10), h.indexOf("is", -5), h.lastIndexOf(105), h.indexOf("7468", 0, "hex"));
const w = Buffer.alloc(8); console.log(w.write("hé€", 1), w, w.write("😀", 6), w.write("ff", 0, "hex"), w, w.write("abc", 2, 2), w.fill("xy", 1, 6), w.fill(0));
console.log(w.copy(Buffer.alloc(2)), h.toString("utf8", 5, 7), h.toString("latin1", -3, 4), JSON.stringify(Buffer.from("ab")), Buffer.from("ab").toJSON());
const n = Buffer.alloc(16);
console.log(n.writeUInt8(255), n.writeInt8(-1, 1), n.writeUInt16LE(0x1234, 2), n.writeInt16BE(-2, 4), n.writeUInt32BE(0xdeadbeef, 6), n.writeFloatLE(1.5, 10), n);
console.log(n.readUInt8(0), n.readInt8(1), n.readUInt16LE(2), n.readUint16BE(2), n.readInt16BE(4), n.readUInt32BE(6), n.readInt32BE(6), n.readFloatLE(10));
console.log(n.writeBigInt64LE(-5n, 0), n.readBigInt64LE(0), n.readBigUInt64LE(0), n.writeDoubleBE(Math.PI, 8), n.readDoubleBE(8), n.writeUIntBE(0x123456, 0, 3), n.readUIntBE(0, 3), n.writeIntLE(-3, 0, 6), n.readIntLE(0, 6), n.readUIntLE(0, 5));
console.log(attempt(() => n.readUInt32LE(14)), "|", attempt(() => n.writeUInt8(256)), "|", attempt(() => n.writeInt16LE(40000)), "|", attempt(() => n.readInt8(1.5)), "|", attempt(() => n.readInt8("0")), "|", attempt(() => Buffer.alloc("x")), "|", attempt(() => Buffer.from(5)), "|", attempt(() => Buffer.from(null)), "|", attempt(() => b.toString("nope")), "|", attempt(() => n.writeUInt32BE(2 ** 33)), "|", attempt(() => Buffer.concat("x")), "|", attempt(() => Buffer.concat([1])), "|", attempt(() => n.writeBigUInt64LE(-1n)));
console.log(Buffer.isBuffer(b), Buffer.isBuffer(new Uint8Array(1)), Buffer.isEncoding("UTF-8"), Buffer.isEncoding("x"), Buffer.isEncoding("hex"), Buffer.from("abcd").swap16().toString(), Buffer.of(1, 2), [...Buffer.from("ab").entries()]);
console.log(Buffer.from("ff fe", "latin1"), Buffer.from([0xff, 0xfe, 0x41]).toString(), Buffer.from([0xe2, 0x82]).toString(), Buffer.from("\ud800x").toString("hex"), Buffer.byteLength("\ud800"), Buffer.byteLength("aGVsbG8=", "base64"));
const d = new StringDecoder("utf8"); console.log([d.write(Buffer.from([0xe2, 0x82])), d.write(Buffer.from([0xac, 0x41])), d.write(Buffer.from([0xf0, 0x9f])), d.end()]);
const d64 = new StringDecoder("base64"); console.log([d64.write(Buffer.from("a")), d64.write(Buffer.from("bcd")), d64.end()]); const d16 = new StringDecoder("utf16le"); console.log([d16.write(Buffer.from([0x41])), d16.write(Buffer.from([0, 0x42])), d16.end()]);
console.log(btoa("hi\xff"), atob("aGk="), attempt(() => btoa("€")), new TextDecoder().decode(new TextEncoder().encode(text)) === text, new TextEncoder().encodeInto("a€😀", new Uint8Array(5)));
const td = new TextDecoder(); console.log([td.decode(new Uint8Array([0xe2, 0x82]), { stream: true }), td.decode(new Uint8Array([0xac]), { stream: true }), td.decode()], attempt(() => new TextDecoder("utf-8", { fatal: true }).decode(new Uint8Array([255]))), new TextDecoder("utf-16le").decode(new Uint8Array([0x41, 0])), new TextDecoder("latin1").decode(new Uint8Array([0xe9])), new TextDecoder().decode(new Uint8Array([0xef, 0xbb, 0xbf, 65])));

// Called as constructors, as in old code.
console.log(new Buffer.alloc(2), new Buffer.from("ab"), new Buffer.concat([Buffer.from("a"), Buffer.from("b")]), new Buffer.allocUnsafe(3).length, Buffer.alloc.name, Buffer.concat.length);
