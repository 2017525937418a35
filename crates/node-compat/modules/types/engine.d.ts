/**
 * The engine's interface to a realm: the native module `pi:engine`, and the globals of quickjs-ng that ECMAScript lacks.
 * This file is the contract; `crates/engine/src/natives.rs` implements it.
 *
 * Only modules of the first artifact of a realm, the host modules, may import `pi:engine`. Lone surrogates cannot be sent: a
 * string in `params` that contains one is `invalid_request`.
 */

declare module "pi:engine" {
  /** Values that can be sent. A byte value in params or output is `{"$bytes": i}`. */
  export type Json = null | boolean | number | string | Json[] | { [key: string]: Json | undefined };
  export interface Answer {
    output: any;
    bytes: Uint8Array[];
  }
  /** Makes a hostcall and returns its answer within the running macrotask. Throws `{code, message, retryable, details}`. */
  export function callSync(method: string, capability: string, params: object, bytes?: Uint8Array[]): Answer;
  /** A failure of a hostcall: the members of the taxonomy. */
  export interface Failure {
    code: string;
    message: string;
    retryable?: boolean;
    details?: Record<string, any>;
  }
  /** Makes a hostcall like `callSync`, and returns a failure instead of throwing it, which would capture a stack. */
  export function tryCallSync(
    method: string,
    capability: string,
    params: object,
    bytes?: Uint8Array[],
  ): (Answer & { error?: undefined }) | { error: Failure };
  /**
   * Queues a hostcall for the yield and assigns its id (`host-1`, `host-2`, ...). `result` receives its answer. Throws like
   * `callSync`.
   */
  export function call(
    method: string,
    capability: string,
    params: object,
    bytes?: Uint8Array[],
    timeoutMs?: number,
  ): string;
  /**
   * Queues a hostcall that is neither cancelled nor streamed. The engine settles the returned promise with the answer, or with
   * `failure`'s conversion of the error.
   */
  export function callPromise(
    method: string,
    capability: string,
    params: object,
    bytes?: Uint8Array[],
    timeoutMs?: number,
  ): Promise<Answer>;
  /** Queues a protocol message for the yield. */
  export function send(message: { type: string; payload: any }): void;
  /** Returns the driver's time; each read advances it by a fixed step. */
  export function epochMs(): number;
  export function elapsedMs(): number;
  /** Returns a random number from the driver's entropy. */
  export function random(): number;
  export function fillRandom(target: Uint8Array): void;
  /** Facts that the host set when it created the realm; frozen. */
  export const facts: Readonly<Record<string, any>>;
  /** Returns the version counter and the readable state; the engine updates the object in place before each task. */
  export function state(): { version: number; set: Record<string, any>; entries: any[] };
  export function encodeUtf8(text: string): Uint8Array;
  export function decodeUtf8(bytes: Uint8Array, fatal: boolean, ignoreBOM: boolean): string;
  export function decode(label: string, bytes: Uint8Array, fatal?: boolean, ignoreBOM?: boolean): string;
  export interface UrlParts {
    href: string;
    origin: string;
    protocol: string;
    username: string;
    password: string;
    host: string;
    hostname: string;
    port: string;
    pathname: string;
    search: string;
    hash: string;
  }
  /** Parses a URL; undefined if the input is not a URL. */
  export function parseUrl(input: string, base?: string): UrlParts | undefined;
  export function setUrlPart(href: string, part: string, value: string): UrlParts | undefined;
  /**
   * Returns whether two values are identical, in constant time. For strings `true` means that they are equal, and `false` means
   * nothing.
   */
  export function isSame(one: unknown, other: unknown): boolean;
  /** Automata that read one growing text. */
  export function prefilters(): Prefilters;
  export interface Prefilters {
    /**
     * Adds an automaton, which reads from the next text on: its number, or `undefined` when it cannot prefilter the expression.
     */
    add(source: string, flags: string): number | undefined;
    begin(): void;
    /** Reads the next piece. Returns the numbers of expressions that may match; undefined for none. */
    read(piece: string): number[] | undefined;
  }
  /** Returns the state of a promise, without queueing a job. */
  export function promiseState(promise: Promise<unknown>): { state: "pending" | "fulfilled" | "rejected"; value: unknown };
  /** Reports that a handle for the host was issued to a function. A realm that records stacks records one for it. */
  export function issued(handle: number): void;
  export function enqueueJob(job: () => void): void;
  /** Calls a function once, when the microtask queue is empty. A later call replaces the function. */
  export function afterJobs(job: () => void): void;
  /**
   * Starts a digest or, with a key, an HMAC; undefined for an unknown name. `()` finishes it, `(true)` copies it.
   */
  export function digest(name: string, key?: Uint8Array): Digest | undefined;
  export interface Digest {
    (bytes: Uint8Array): void;
    (copy: true): Digest;
    (): Uint8Array;
  }
  /** `pbkdf2` (a: rounds), `scrypt` (a, b, c: cost, block size, parallelism) or `hkdf`; `undefined` for an unknown digest. */
  export function deriveKey(kind: string, digest: string, password: Uint8Array, salt: Uint8Array, info: Uint8Array, a: number, b: number, c: number, length: number): Uint8Array | undefined;
  /** Starts an AES mode (`cbc`, `ctr`, `ecb`, `gcm`); undefined if key or vector do not fit. */
  export function cipher(mode: string, encrypt: boolean, key: Uint8Array, iv: Uint8Array): Cipher | undefined;
  export interface Cipher {
    (operation: "update", bytes: Uint8Array): Uint8Array;
    (operation: "final"): Uint8Array | "length" | "decrypt" | "auth";
    (operation: "tag"): Uint8Array | undefined;
    (operation: "aad" | "expect", bytes: Uint8Array): void;
    (operation: "unpadded"): void;
  }
  /** Decodes a private key, or its public part; undefined if the bytes are not such a key. `encrypted` takes the passphrase. */
  export function readKey(form: "pkcs1" | "pkcs8" | "sec1" | "spki" | "certificate" | "encrypted", der: Uint8Array, passphrase?: Uint8Array): Key | undefined;
  /** Creates a key from the numbers of its JWK; a point on a curve is one number. */
  export function buildKey(kind: string, ...numbers: Uint8Array[]): Key | undefined;
  /** Generates a private key. `bits` and `exponent` apply to RSA. */
  export function generateKey(kind: string, seed: Uint8Array, bits: number, exponent: number): Key | undefined;
  export interface Key {
    (operation: "kind"): string;
    (operation: "private"): boolean;
    (operation: "public"): Key;
    (operation: "der", form: string): Uint8Array | undefined;
    (operation: "encrypted", cipher: string, passphrase: Uint8Array, seed: Uint8Array): Uint8Array | undefined;
    (operation: "numbers"): Uint8Array[];
    (operation: "point", short: boolean): Uint8Array | undefined;
    (operation: "sign" | "encrypt" | "decrypt", data: Uint8Array, padding: string, digest: string, salt: number, label: Uint8Array, seed: Uint8Array): Uint8Array | undefined;
    (operation: "verify", data: Uint8Array, padding: string, digest: string, salt: number, label: Uint8Array, signature: Uint8Array): boolean;
    (operation: "recover", signature: Uint8Array): Uint8Array | undefined;
    (operation: "agree", spki: Uint8Array): Uint8Array | undefined;
  }
  /** Returns a codec of zlib or brotli. Each step consumes input and returns at most `room` bytes. */
  export function compressor(kind: string, level: number, windowBits: number, dictionary?: Uint8Array): (input: Uint8Array, flush: number, room: number) => {
    output: Uint8Array;
    read: number;
    end: boolean;
    failure?: string;
    /** Node's error code, if the message does not determine it. */
    code?: string;
    number?: number;
  };
  /** Returns a zone's offset at a time, from this program's tables, in seconds east of UTC; undefined for an unknown zone. */
  export function timeZone(name: string, epochMs: number): { name: string; offset: number; dst: boolean; abbreviation: string } | undefined;
  /** Returns all zones in the tables, sorted. */
  export function timeZones(): string[];
  /** Installs the hooks of WebAssembly functions. Called once. */
  export function webAssembly(hooks: {
    /** Creates the error for a failure: `CompileError`, `LinkError`, `RuntimeError` or `RangeError`. */
    failure(kind: string, message: string): Error;
    functionOf(id: number): (...args: any[]) => any;
    functionId(value: unknown): number | undefined;
    externOf(id: number): unknown;
    externId(value: unknown): number;
    /** Returns the results of an imported function with several results. */
    list(value: unknown, length: number): unknown[];
  }): WebAssemblyNatives;
  export interface WebAssemblyNatives {
    validate(bytes: Uint8Array): boolean;
    /** Compiles a module. Imports are `[module, name, kind, type?, mutable?]`, exports `[name, kind, index]`. */
    compile(bytes: Uint8Array): { module: number; imports: any[]; exports: any[] };
    customSections(module: number, name: string): ArrayBuffer[];
    /** Instantiates a module with numbers and functions in the order of its imports. Does not call the start function. */
    instantiate(module: number, imports: unknown[]): { exports: number[]; start?: number };
    makeFunction(id: number, name: string): (...args: any[]) => any;
    newMemory(initial: number, maximum?: number): number;
    /** Returns the memory's buffer, which is detached when the memory grows. */
    memoryBuffer(memory: number): ArrayBuffer;
    growMemory(memory: number, pages: number): number;
    newTable(element: string, initial: number, maximum: number | undefined, first: unknown): number;
    tableType(table: number): string;
    tableLength(table: number): number;
    tableGet(table: number, index: number): unknown;
    tableSet(table: number, index: number, value: unknown): boolean;
    /** Grows a table. Returns the previous length; undefined above the limit. */
    growTable(table: number, elements: number, value: unknown): number | undefined;
    newGlobal(type: string, mutable: boolean, value: unknown): number;
    globalType(global: number): [string, boolean];
    globalGet(global: number): unknown;
    globalSet(global: number, value: unknown): boolean;
  }
  export function crc32(bytes: Uint8Array, start: number): number;
  /**
   * Evaluates an added module, unless it was evaluated, and returns its namespace. The module and its imports have no top-level
   * await. Lazy globals and `createRequire` use it. Throws for an unknown specifier.
   */
  export function importSync(specifier: string): any;
  /**
   * Requests permission to compile the text of a file (capability `eval`), compiles it, and adds it under its `file:` URL.
   * Returns the specifiers of its static imports. Throws like `callSync` when refused.
   */
  export function compileModule(url: string, path: string, text: string, isCommonJs: boolean, meta: object): string[];
  /** Returns V8's message for an error with this message at a position in text that the extension has compiled, or null. */
  export function quoteText(message: string, text: string, line: number, column: number): string | null;
  /** Makes a namespace the target of a specifier in such a module. */
  export function bridgeModule(url: string, specifier: string, namespace: unknown): void;
  /** Returns the target and handler of a proxy, or `[null, null]` if it is revoked. No trap runs. */
  export function proxyParts(value: unknown): [object, object] | [null, null] | undefined;
}

declare function atob(data: string): string;
declare function btoa(data: string): string;

declare class DOMException extends Error {
  constructor(message?: string, name?: string);
  readonly code: number;
}

interface ErrorConstructor {
  captureStackTrace?(target: object, constructor?: Function): void;
  stackTraceLimit?: number;
}

interface ErrorOptions {
  cause?: unknown;
}
