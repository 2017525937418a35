/**
 * `pi:node/stream/lazy`: classes that become transform streams on first use as one.
 *
 * A hash is nearly always used with `update` and `digest`; loading the stream modules for that would cost
 * more than the hash. The class gets placeholders for the stream methods; the first call of one inserts
 * `Transform` into its prototype chain, and an instance becomes a stream when its state is first read.
 */

import { importSync } from "pi:engine";

const NAMES = [
  "on", "once", "addListener", "prependListener", "emit", "off", "removeListener", "removeAllListeners", "listenerCount", "listeners", "pipe", "unpipe", "write", "end",
  "read", "push", "pause", "resume", "setEncoding", "destroy", "cork", "uncork", "setDefaultEncoding", "isPaused", "setMaxListeners", Symbol.asyncIterator,
];

/** Makes the class a transform. The stream uses `transform` and `flush` of the class's prototype. */
export function lazyTransform(Class: any): void {
  const { prototype } = Class;
  const upgrade = () => {
    for (const name of NAMES) delete prototype[name];
    const { Transform } = importSync("pi:node/stream/duplex");
    importSync("node:stream");
    Object.setPrototypeOf(prototype, Transform.prototype);
    for (const state of ["_readableState", "_writableState"]) {
      Object.defineProperty(prototype, state, {
        get(this: any) {
          Transform.call(this, this._streamOptions);
          return this[state];
        },
        set(this: any, value: unknown) {
          Object.defineProperty(this, state, { value, writable: true, enumerable: true, configurable: true });
        },
        configurable: true,
      });
    }
  };
  for (const name of NAMES) {
    Object.defineProperty(prototype, name, {
      value(this: any, ...args: unknown[]) {
        if (Object.hasOwn(prototype, name)) upgrade();
        return this[name](...args);
      },
      configurable: true,
      writable: true,
    });
  }
}
