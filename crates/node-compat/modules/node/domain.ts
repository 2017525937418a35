/** `node:domain`: can be imported and extended; using it says what to do instead. */

import { refuse } from "pi:node/refuse";

const refused = refuse("node:domain", "catch errors where they happen", [
  "create", "createDomain", "Domain",
]);

export const {
  create, createDomain, Domain,
} = refused;

export default refused;
