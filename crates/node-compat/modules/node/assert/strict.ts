/** `node:assert/strict`. */

import { strict } from "node:assert";

export const { AssertionError, ok, equal, notEqual, deepEqual, notDeepEqual, deepStrictEqual, notDeepStrictEqual, strictEqual, notStrictEqual, match, doesNotMatch, fail, ifError, throws, doesNotThrow, rejects, doesNotReject } = strict;
export { strict };
export default strict;
