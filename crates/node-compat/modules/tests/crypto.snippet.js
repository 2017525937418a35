import crypto, { createCipheriv, createDecipheriv, createHash, createHmac } from "node:crypto";
import { Buffer } from "node:buffer";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { promisify } from "node:util";

const log = (...args) => console.log(...args);
const attempt = (call) => {
  try {
    log(call());
  } catch (error) {
    log(error.name, error.code, error.message);
  }
};

for (const name of ["md5", "sha1", "sha224", "sha256", "sha384", "sha512", "sha512-256", "sha3-256", "ripemd160", "RSA-SHA256", "SHA256"]) {
  log(name, createHash(name).update("grüße ").update(Buffer.from("🦀")).digest("hex"));
  log(name, createHmac(name, "key").update("data").digest("base64"));
}
log(createHash("sha256").digest("base64url"), createHash("sha1").update("616263", "hex").digest("hex"), createHash("md5").update(new Uint16Array([1, 2])).digest());
{
  const running = createHash("sha256").update("a");
  const copy = running.copy();
  log(running.update("b").digest("hex") === createHash("sha256").update("ab").digest("hex"), copy.digest("hex"));
  attempt(() => running.update("c"));
  attempt(() => running.digest());
  const mac = createHmac("sha256", Buffer.alloc(200, 1));
  log(mac.digest("hex"), mac.digest("hex"));
}
attempt(() => createHash("sha256").update(5));
attempt(() => createHash("sha256").update());
attempt(() => createHash(5));
attempt(() => createHmac("nope", "k"));
attempt(() => createHmac("sha256", 5));
attempt(() => crypto.hash("sha1", "abc"));
log(crypto.getHashes().includes("sha256"), crypto.getCiphers().includes("aes-256-gcm"));
{
  const stream = createHash("sha256");
  await pipeline(Readable.from(["streamed ", "text"]), stream);
  log(stream.read().toString("hex"), createHash("sha256").update("streamed text").digest("hex"));
  const encoded = createHash("md5");
  encoded.setEncoding("hex");
  encoded.write("x");
  encoded.end();
  encoded.on("data", (text) => log("data", text));
  await new Promise((resolve) => encoded.on("end", resolve));
}

// Key derivation
log(crypto.pbkdf2Sync("secret", "salt", 1000, 24, "sha512").toString("hex"));
log(crypto.scryptSync("secret", "salt", 24).toString("hex"), crypto.scryptSync("p", "s", 16, { N: 1024, r: 4, p: 2 }).toString("hex"));
log(Buffer.from(crypto.hkdfSync("sha256", "key", "salt", "info", 40)).toString("hex"));
log((await promisify(crypto.pbkdf2)("a", "b", 1, 8, "sha1")).toString("hex"), (await promisify(crypto.scrypt)("a", "b", 8)).toString("hex"));
attempt(() => crypto.pbkdf2Sync("a", "b", 1, 8, "nope"));
attempt(() => crypto.pbkdf2Sync("a", "b", 0, 8, "sha1"));
attempt(() => crypto.pbkdf2Sync("a", "b", 1, -1, "sha1"));
attempt(() => crypto.hkdfSync("sha256", "key", "salt", "info", 255 * 32 + 1));

// Ciphers
const key = Buffer.alloc(32, 7);
const iv = Buffer.alloc(16, 9);
const long = "The quick brown fox jumps over the lazy dog. ".repeat(3);
for (const name of ["aes-256-cbc", "aes-128-cbc", "aes-192-ctr", "aes-256-ctr", "aes-256-ecb", "aes256"]) {
  const size = Number(/\d+/.exec(name)[0]) / 8;
  const vector = name.includes("ecb") ? null : iv;
  const cipher = createCipheriv(name, key.subarray(0, size), vector);
  let text = cipher.update(long.slice(0, 20), "utf8", "hex");
  text += cipher.update(long.slice(20), "utf8", "hex");
  text += cipher.final("hex");
  log(name, text);
  const decipher = createDecipheriv(name, key.subarray(0, size), vector);
  log(decipher.update(text.slice(0, 34), "hex", "utf8") + decipher.update(text.slice(34), "hex", "utf8") + decipher.final("utf8") === long);
}
for (const vector of [Buffer.alloc(12, 3), Buffer.alloc(16, 3), Buffer.alloc(7, 3)]) {
  const cipher = createCipheriv("aes-256-gcm", key, vector);
  cipher.setAAD(Buffer.from("more"));
  const sealed = Buffer.concat([cipher.update(long.slice(0, 5)), cipher.update(long.slice(5)), cipher.final()]);
  const tag = cipher.getAuthTag();
  log(sealed.toString("hex"), tag.toString("hex"));
  const open = createDecipheriv("aes-256-gcm", key, vector).setAAD(Buffer.from("more")).setAuthTag(tag);
  log(Buffer.concat([open.update(sealed), open.final()]).toString() === long);
  const forged = createDecipheriv("aes-256-gcm", key, vector).setAAD(Buffer.from("less")).setAuthTag(tag);
  forged.update(sealed);
  attempt(() => forged.final());
}
{
  const sealed = createCipheriv("aes-256-cbc", key, iv);
  const bytes = Buffer.concat([sealed.update("short"), sealed.final()]);
  const wrong = createDecipheriv("aes-256-cbc", Buffer.alloc(32, 8), iv);
  wrong.update(bytes);
  attempt(() => wrong.final());
  const cut = createDecipheriv("aes-256-cbc", key, iv);
  cut.update(bytes.subarray(0, 10));
  attempt(() => cut.final());
  const bare = createCipheriv("aes-128-cbc", key.subarray(0, 16), iv).setAutoPadding(false);
  log(Buffer.concat([bare.update(Buffer.alloc(16)), bare.final()]).length);
  attempt(() => bare.final());
  attempt(() => createCipheriv("aes-256-cbc", key.subarray(0, 5), iv));
  attempt(() => createCipheriv("aes-256-cbc", key, iv.subarray(0, 5)));
  attempt(() => createCipheriv("no-such", key, iv));
  attempt(() => createCipheriv("aes-256-gcm", key, iv).getAuthTag());
  attempt(() => createDecipheriv("aes-256-gcm", key, iv).setAuthTag(Buffer.alloc(5)));
  const piped = Readable.from([Buffer.from("in"), Buffer.from("out")]).pipe(createCipheriv("aes-256-cbc", key, iv));
  const all = [];
  for await (const chunk of piped) all.push(chunk);
  log(Buffer.concat(all).toString("hex"));
}
const secret = crypto.createSecretKey(Buffer.from("secret"));
log(secret.type, secret.symmetricKeySize, secret.export().toString(), createHmac("sha256", secret).update("x").digest("hex"));
log(crypto.timingSafeEqual(Buffer.from("a"), Buffer.from("a")), crypto.randomBytes(8).length, typeof crypto.randomUUID());
attempt(() => crypto.timingSafeEqual(Buffer.from("a"), Buffer.from("ab")));

// Web crypto
const { subtle } = crypto.webcrypto;
const hex = (buffer) => Buffer.from(buffer).toString("hex");
log(hex(await subtle.digest("SHA-256", new TextEncoder().encode("abc"))), hex(await subtle.digest({ name: "sha-1" }, new Uint8Array(0))));
{
  const mac = await subtle.importKey("raw", new TextEncoder().encode("k"), { name: "HMAC", hash: "SHA-256" }, false, ["sign", "verify"]);
  const signature = await subtle.sign("HMAC", mac, new TextEncoder().encode("data"));
  log(hex(signature), await subtle.verify("HMAC", mac, signature, new TextEncoder().encode("data")), await subtle.verify("HMAC", mac, signature, new Uint8Array(1)));
  log(mac.type, mac.extractable, mac.algorithm, mac.usages);
  await subtle.exportKey("raw", mac).catch((error) => log(error.name, error.message));
  const aes = await subtle.importKey("raw", key, "AES-GCM", true, ["encrypt", "decrypt"]);
  const sealed = await subtle.encrypt({ name: "AES-GCM", iv: new Uint8Array(12), additionalData: new Uint8Array(3) }, aes, new TextEncoder().encode("web"));
  log(hex(sealed), hex(await subtle.decrypt({ name: "AES-GCM", iv: new Uint8Array(12), additionalData: new Uint8Array(3) }, aes, sealed)));
  await subtle.decrypt({ name: "AES-GCM", iv: new Uint8Array(12) }, aes, sealed).catch((error) => log(error.name));
  log(await subtle.exportKey("jwk", aes));
  const password = await subtle.importKey("raw", new TextEncoder().encode("pass"), "PBKDF2", false, ["deriveBits", "deriveKey"]);
  log(hex(await subtle.deriveBits({ name: "PBKDF2", salt: new Uint8Array(8), iterations: 10, hash: "SHA-256" }, password, 128)));
  const derived = await subtle.deriveKey({ name: "PBKDF2", salt: new Uint8Array(8), iterations: 10, hash: "SHA-512" }, password, { name: "AES-CBC", length: 256 }, true, ["encrypt"]);
  log(hex(await subtle.exportKey("raw", derived)), hex(await subtle.encrypt({ name: "AES-CBC", iv: new Uint8Array(16) }, derived, new Uint8Array(5))));
  const base = await subtle.importKey("raw", new Uint8Array(10), "HKDF", false, ["deriveBits"]);
  log(hex(await subtle.deriveBits({ name: "HKDF", salt: new Uint8Array(4), info: new Uint8Array(2), hash: "SHA-256" }, base, 256)));
  const fresh = await subtle.generateKey({ name: "AES-GCM", length: 256 }, true, ["encrypt"]);
  log(fresh.type, fresh.algorithm, (await subtle.exportKey("raw", fresh)).byteLength);
}
attempt(() => crypto.scryptSync("a", "b", 8, { N: 2 ** 20 }));
