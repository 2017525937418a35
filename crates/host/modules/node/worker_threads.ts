/** `node:worker_threads`: can be imported and extended; using it says what to do instead. */

import { refuse } from "pi:node/refuse";

const refused = refuse("node:worker_threads", "split the work over tasks with setImmediate, or start a program with child_process", [
  "Worker", "MessageChannel", "MessagePort", "BroadcastChannel", "markAsUntransferable", "moveMessagePortToContext",
  "receiveMessageOnPort", "getEnvironmentData", "setEnvironmentData",
]);

export const {
  Worker, MessageChannel, MessagePort, BroadcastChannel, markAsUntransferable, moveMessagePortToContext, receiveMessageOnPort,
  getEnvironmentData, setEnvironmentData,
} = refused;

export const isMainThread = true;
export const parentPort = null;
export const workerData = null;
export const threadId = 0;
export const resourceLimits: Record<string, number> = {};
export const SHARE_ENV: unique symbol = Symbol.for("nodejs.worker_threads.SHARE_ENV") as any;

export default { ...refused, isMainThread, parentPort, workerData, threadId, resourceLimits, SHARE_ENV };
