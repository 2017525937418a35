/** `node:cluster`: can be imported and extended; its use throws an error with a hint. */

import { refuse } from "pi:node/refuse";

const refused = refuse("node:cluster", "a realm is one of many, each in its own process", [
  "fork", "setupPrimary", "setupMaster", "disconnect", "Worker",
]);

export const {
  fork, setupPrimary, setupMaster, disconnect, Worker,
} = refused;

export const isPrimary = true;
export const isMaster = true;
export const isWorker = false;
export const workers: Record<string, unknown> = {};

export default { ...refused, isPrimary, isMaster, isWorker, workers };
