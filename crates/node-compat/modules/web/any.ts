/** `pi:web/any`: `Promise.any` implemented by the specification's steps, so that it rejects with V8's message. */

export const { any } = {
  any(this: PromiseConstructor, values: Iterable<unknown>): Promise<unknown> {
    let resolve!: (value: unknown) => void;
    let reject!: (reason: unknown) => void;
    const promise = new this((done, failed) => {
      resolve = done;
      reject = failed;
    });
    const errors: unknown[] = [];
    let left = 1;
    const settle = () => {
      if (--left === 0) reject(new AggregateError(errors, "All promises were rejected"));
    };
    try {
      const resolved = this.resolve;
      if (typeof resolved !== "function") throw new TypeError("Promise resolve or reject function is not callable");
      for (const value of values) {
        const index = errors.length;
        let called = false;
        errors[index] = undefined;
        left++;
        Reflect.apply(resolved, this, [value]).then(resolve, (error: unknown) => {
          if (called) return;
          called = true;
          errors[index] = error;
          settle();
        });
      }
      settle();
    } catch (error) {
      reject(error);
    }
    return promise;
  },
};
