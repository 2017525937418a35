// A CommonJS module that is run when it is first required, in the place of the bundler's own. That one keeps what a module had
// exported when it threw, and gives it to whoever requires it next. Under Node such a module is not kept: it is run again, so that a
// dependency that is not installed is missing every time.
export var __commonJSMin = (run, module) => () => {
  if (!module) {
    module = { exports: {} };
    try {
      run(module.exports, module);
    } catch (error) {
      module = undefined;
      throw error;
    }
    run = null;
  }
  return module.exports;
};
