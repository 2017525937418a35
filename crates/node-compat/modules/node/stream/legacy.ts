/** `pi:node/stream/legacy`: `Stream`, an emitter with `pipe`, which is the base of every stream. */

import { EventEmitter } from "node:events";

/** The constructor is a function, since old code calls it on its own object. */
export const Stream: any = function Stream(this: any, _options?: object) {
  Reflect.apply(EventEmitter as any, this, []);
};
inherit(Stream, EventEmitter);

/** Makes `Child` extend `Parent`: prototypes, statics, and `constructor`. */
export function inherit(Child: any, Parent: any): void {
  Object.setPrototypeOf(Child.prototype, Parent.prototype);
  Object.setPrototypeOf(Child, Parent);
}

/** Adds methods and accessors as a class does: not enumerable. */
export function define(prototype: object, members: object): void {
  const descriptors = Object.getOwnPropertyDescriptors(members) as Record<PropertyKey, PropertyDescriptor>;
  for (const name of Reflect.ownKeys(descriptors)) Object.defineProperty(prototype, name, { ...descriptors[name as string], enumerable: false });
}

define(Stream.prototype, {
  /** Pipes an emitter's events: data, pause and resume, end, close. */
  pipe(this: any, target: any, options?: { end?: boolean }): any {
    const source = this;
    const onData = (chunk: unknown) => {
      if (target.writable && target.write(chunk) === false && source.pause) source.pause();
    };
    const onDrain = () => {
      if (source.readable && source.resume) source.resume();
    };
    let ended = false;
    const onEnd = () => {
      if (ended) return;
      ended = true;
      target.end();
    };
    const onClose = () => {
      if (ended) return;
      ended = true;
      if (typeof target.destroy === "function") target.destroy();
    };
    const onError = function (this: any, error: unknown) {
      cleanup();
      if (this.listenerCount("error") === 0) this.emit("error", error);
    };
    const cleanup = () => {
      source.removeListener("data", onData);
      target.removeListener("drain", onDrain);
      source.removeListener("end", onEnd);
      source.removeListener("close", onClose);
      source.removeListener("error", onError);
      target.removeListener("error", onError);
      for (const event of ["end", "close"]) source.removeListener(event, cleanup);
      target.removeListener("close", cleanup);
    };
    source.on("data", onData);
    target.on("drain", onDrain);
    if (!target._isStdio && options?.end !== false) {
      source.on("end", onEnd);
      source.on("close", onClose);
    }
    source.prependListener("error", onError);
    target.prependListener("error", onError);
    source.on("end", cleanup);
    source.on("close", cleanup);
    target.on("close", cleanup);
    target.emit("pipe", source);
    return target;
  },
  eventNames(this: any): (string | symbol)[] {
    return EventEmitter.prototype.eventNames.call(this);
  },
});
