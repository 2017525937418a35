/**
 * `pi:node/callable`: classes that old code calls as functions, `http.ServerResponse.call(this, request)` with `util.inherits`,
 * because their constructors are functions in Node.
 *
 * A class cannot be called, but its constructors continue with the object that its outermost parent returns. So the
 * parent of such a class returns the object that the call was for, and members and private names are defined on it.
 */

let adopted: object | undefined;

/** Returns the parent for a class that [`callable`] wraps: `Base`, as a function that returns the object of a call. */
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

/** Wraps a class as a function that can be called, either on an object that inherits from it or like `new`. */
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
