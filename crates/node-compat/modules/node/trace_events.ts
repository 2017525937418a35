/** `node:trace_events`: can be imported and extended; its use throws an error with a hint. */

import { refuse } from "pi:node/refuse";

const refused = refuse("node:trace_events", "record a tape instead", [
  "createTracing", "getEnabledCategories",
]);

export const {
  createTracing, getEnabledCategories,
} = refused;

export default refused;
