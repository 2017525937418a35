/**
 * What the engine gives a realm: the native module `pi:engine` and the few globals that
 * quickjs-ng has beyond ECMAScript. The contract is in docs/architecture.md.
 */

declare module "pi:engine" {
  /** Values that cross the wire. A byte value in params or output is `{"$bytes": i}`. */
  export type Json = null | boolean | number | string | Json[] | { [key: string]: Json | undefined };
  export interface Answer {
    output: any;
    bytes: Uint8Array[];
  }
  /** One request and its answer inside the running macrotask. Throws `{code, message, retryable, details}`. */
  export function callSync(method: string, capability: string, params: object, bytes?: Uint8Array[]): Answer;
  /** Queues a protocol message for the yield. */
  export function send(message: { type: string; payload: any }): void;
  /** The driver's time; each read advances it by a fixed step. */
  export function epochMs(): number;
  export function elapsedMs(): number;
  /** Driven entropy. */
  export function random(): number;
  export function fillRandom(target: Uint8Array): void;
  /** What the host told the realm when it was made; frozen. */
  export const facts: Readonly<Record<string, any>>;
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
  /** `undefined` when the input is no URL. */
  export function parseUrl(input: string, base?: string): UrlParts | undefined;
  export function setUrlPart(href: string, part: string, value: string): UrlParts | undefined;
  export function promiseState(promise: Promise<unknown>): { state: "pending" | "fulfilled" | "rejected"; value: unknown };
  export function enqueueJob(job: () => void): void;
  /** `host-1`, `host-2`, ... */
  export function nextCallId(): string;
  /**
   * Evaluates an added module now, when it was not yet, and returns its namespace. The module and
   * what it imports have no top-level await. Unknown specifier: throws.
   */
  export function importSync(specifier: string): any;
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
