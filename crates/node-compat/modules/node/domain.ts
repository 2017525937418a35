/** `node:domain`: can be imported and extended; its use throws an error with a hint. */

import { refuse } from "pi:node/refuse";

const refused = refuse("node:domain", "catch errors where they happen", [
  "create", "createDomain", "Domain",
]);

export const {
  create, createDomain, Domain,
} = refused;

export default refused;
