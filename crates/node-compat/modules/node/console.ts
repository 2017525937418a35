/** `node:console`. */

import { Console as ConsoleClass, console } from "pi:web/console";

export const Console = ConsoleClass;
export const { log, info, debug, warn, error, trace, assert, dir, dirxml, group, groupCollapsed, groupEnd, count, countReset, time, timeEnd, timeLog, table, clear } = console;
export default console;
