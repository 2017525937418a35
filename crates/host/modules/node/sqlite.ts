/** `node:sqlite`: can be imported and extended; using it says what to do instead. */

import { refuse } from "pi:node/refuse";

const refused = refuse("node:sqlite", "a database is not there yet; keep data in files or in session entries", [
  "DatabaseSync", "StatementSync", "Session", "backup",
]);

export const {
  DatabaseSync, StatementSync, Session, backup,
} = refused;

export const constants: Record<string, number> = {};

export default { ...refused, constants };
