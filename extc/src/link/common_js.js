// Replaces the bundler's own wrapper of a CommonJS module, which runs on the first `require`. The bundler's wrapper caches the
// partial exports of a module that threw, and returns them to the next `require`. Node does not cache such a module and runs it
// again, so that a dependency that is not installed is missing every time.
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
