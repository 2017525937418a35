/** `node:timers`: the global timer functions as a module. */

import { clearImmediate, clearInterval, clearTimeout, setImmediate, setInterval, setTimeout } from "pi:web/timers";
import promiseForms from "node:timers/promises";

export { clearImmediate, clearInterval, clearTimeout, setImmediate, setInterval, setTimeout };
export const promises = promiseForms;
export default { clearImmediate, clearInterval, clearTimeout, setImmediate, setInterval, setTimeout, promises };
