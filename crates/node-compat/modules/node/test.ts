/** `node:test`: can be imported and extended; its use throws an error with a hint. */

import { refuse } from "pi:node/refuse";

const refused = refuse("node:test", "run tests with a test runner outside pi", [
  "test", "it", "describe", "suite", "before", "after", "beforeEach", "afterEach", "run", "mock",
]);

export const {
  test, it, describe, suite, before, after, beforeEach, afterEach, run, mock,
} = refused;

export default refused;
