/**
 * `pi:node/callable`: classes that old code calls as functions, `http.ServerResponse.call(this, request)` with `util.inherits`,
 * as their constructors in Node are functions.
 *
 * A class cannot be called, but what its outermost parent returns is the object that its constructors go on with. So the
 * parent of such a class gives back the object that the call was for, and members and private names are put on that.
 */

let adopted: object | undefined;

/** Returns the parent of a class that [`callable`] wraps: `Base`, which is a function, with the object of a call. */
export function adopting<B>(Base: B): B {
  const Parent: any = function (this: object, ...args: unknown[]) {
    const target = adopted ?? this;
    adopted = undefined;
    (Base as any).apply(target, args);
    return target;
  };
  Parent.prototype = (Base as any).prototype;
  return Object.setPrototypeOf(Parent, Base as any);
}

/** Wraps a class as a function that can also be called: on an object that inherits from it, otherwise like `new`. */
export function callable<C>(made: C): C {
  const Class = made as any;
  const Outer: any = function (this: unknown, ...args: unknown[]) {
    if (new.target) return Reflect.construct(Class, args, new.target);
    if (!(this instanceof Class)) return Reflect.construct(Class, args);
    adopted = this as object;
    try {
      Reflect.construct(Class, args);
    } finally {
      adopted = undefined;
    }
  };
  const { prototype, ...own } = Object.getOwnPropertyDescriptors(Class) as Record<string, PropertyDescriptor>;
  Object.defineProperties(Outer, own);
  Outer.prototype = prototype!.value;
  Object.defineProperty(Class.prototype, "constructor", { value: Outer, writable: true, configurable: true });
  return Object.setPrototypeOf(Outer, Object.getPrototypeOf(Class));
}
