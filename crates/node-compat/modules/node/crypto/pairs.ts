/** `pi:node/crypto/pairs`: generation of key pairs. */

import { generateKey } from "pi:engine";
import type { Key } from "pi:engine";
import { checkFunction, checkString, coded, invalidArgType, notSupported, outOfRange } from "pi:node/errors";
import { encodeKey, encodingOf } from "pi:node/crypto/encodings";
import { keyObject } from "pi:node/crypto/keys";
import { jwkOf, seed } from "pi:web/keys";
import { queueTick } from "pi:web/ticks";

const CURVES: Record<string, string> = {
  "P-256": "P-256", prime256v1: "P-256", "P-384": "P-384", secp384r1: "P-384", "P-521": "P-521", secp521r1: "P-521", secp256k1: "secp256k1",
};

/** Returns the engine's name for a curve of OpenSSL. */
export function curveOf(name: string): string {
  const curve = Object.hasOwn(CURVES, name) ? CURVES[name] : undefined;
  if (!curve) throw coded(TypeError, "ERR_CRYPTO_INVALID_CURVE", "Invalid EC curve name");
  return curve;
}

export function getCurves(): string[] {
  return ["prime256v1", "secp256k1", "secp384r1", "secp521r1"];
}

function unsigned(options: any, name: string): number {
  const value = options[name];
  if (typeof value !== "number") throw invalidArgType(`options.${name}`, "of type number", value);
  if (!Number.isInteger(value)) throw outOfRange(`options.${name}`, "an integer", value);
  if (value < 0 || value > 2 ** 32 - 1) throw outOfRange(`options.${name}`, ">= 0 && <= 4294967295", value);
  return value;
}

function checkObject(name: string, value: unknown): void {
  if (typeof value !== "object" || value === null) throw invalidArgType(name, "of type object", value);
}

/** Checks the arguments. Returns the function that generates the key. */
function maker(type: string, options: any): () => Key {
  switch (type) {
    case "rsa": {
      checkObject("options", options);
      const bits = unsigned(options, "modulusLength");
      const exponent = options.publicExponent === undefined ? 65537 : unsigned(options, "publicExponent");
      return () => {
        if (bits < 512) throw new Error("error:1C8000AB:Provider routines::key size too small");
        if (bits < 1024) throw notSupported("an RSA key of fewer than 1024 bits", "use 2048");
        if (exponent % 2 === 0 || exponent < 3) throw new Error("error:1C8000B2:Provider routines::pub exponent out of range");
        return generateKey("rsa", seed(), bits, exponent)!;
      };
    }
    case "ec": {
      checkObject("options", options);
      checkString("options.namedCurve", options.namedCurve);
      const curve = curveOf(options.namedCurve);
      return () => generateKey(curve, seed(), 0, 0)!;
    }
    case "ed25519":
    case "x25519":
      return () => generateKey(type, seed(), 0, 0)!;
    case "dh":
    case "dsa":
    case "ed448":
    case "rsa-pss":
    case "x448":
      throw notSupported(`crypto.generateKeyPair of ${type}`, "rsa, ec, ed25519 and x25519 are");
    default:
      throw coded(TypeError, "ERR_INVALID_ARG_VALUE", `The argument 'type' must be a supported key type. Received '${type}'`);
  }
}

/** Returns the function that converts one part of a pair to its output format, by default a key object. */
function shape(options: any, part: "public" | "private", keyType: string): (key: Key) => unknown {
  const within = `${part}KeyEncoding`;
  const asked = options?.[within];
  if (asked === undefined || asked === null) return keyObject;
  checkObject(`options.${within}`, asked);
  const encoding = encodingOf(asked, false, { part, keyType, within });
  return (key) => (encoding.format === "jwk" ? jwkOf(key) : encodeKey(key, encoding));
}

interface Pair {
  publicKey: any;
  privateKey: any;
}

function prepared(type: string, options: any): () => Pair {
  checkString("type", type);
  if (options !== undefined) checkObject("options", options);
  const [outer, inner] = [shape(options, "public", type), shape(options, "private", type)];
  const make = maker(type, options);
  return () => {
    const key = make();
    return { publicKey: outer(key("public")), privateKey: inner(key) };
  };
}

export function generateKeyPairSync(type: string, options?: any): Pair {
  return prepared(type, options)();
}

/** Generates synchronously and calls back in a tick: the realm has one thread. */
export function generateKeyPair(type: string, options: any, done?: any): void {
  if (typeof options === "function") [options, done] = [undefined, options];
  checkFunction("callback", done);
  const make = prepared(type, options);
  let outcome: unknown[];
  try {
    const { publicKey, privateKey } = make();
    outcome = [null, publicKey, privateKey];
  } catch (error) {
    outcome = [error];
  }
  queueTick(() => done(...outcome));
}
Object.defineProperty(generateKeyPair, Symbol.for("nodejs.util.promisify.custom"), {
  value: (type: string, options: unknown) =>
    new Promise((resolve, reject) => {
      generateKeyPair(type, options, (error: unknown, publicKey: unknown, privateKey: unknown) => (error ? reject(error) : resolve({ publicKey, privateKey })));
    }),
});
