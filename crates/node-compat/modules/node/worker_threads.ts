/** `node:worker_threads`: channels inside one thread; starting a worker throws a hint. */

import { refuse } from "pi:node/refuse";
import { BroadcastChannel, MessageChannel, MessagePort } from "pi:web/channels";

const refused = refuse("node:worker_threads", "split the work over tasks with setImmediate, or start a program with child_process", [
  "Worker", "moveMessagePortToContext", "postMessageToThread",
]);
export const { Worker, moveMessagePortToContext, postMessageToThread } = refused;

export const isMainThread = true;
export const isInternalThread = false;
export const parentPort = null;
export const workerData = null;
export const threadId = 0;
export const threadName = "";
export const resourceLimits: Record<string, number> = {};
export const SHARE_ENV: unique symbol = Symbol.for("nodejs.worker_threads.SHARE_ENV") as any;

export function receiveMessageOnPort(port: MessagePort): { message: unknown } | undefined {
  const posted = port._take();
  return posted && { message: posted.data };
}

const environment = new Map<unknown, unknown>();
export function getEnvironmentData(key: unknown): unknown {
  return environment.get(key);
}
export function setEnvironmentData(key: unknown, value?: unknown): void {
  if (value === undefined) environment.delete(key);
  else environment.set(key, value);
}

const kept = new WeakSet<object>();
export function markAsUntransferable(object: object): void {
  kept.add(object);
}
export function isMarkedAsUntransferable(object: object): boolean {
  return kept.has(object);
}
export function markAsUncloneable(): void {}

export { BroadcastChannel, MessageChannel, MessagePort };
export default {
  ...refused, BroadcastChannel, MessageChannel, MessagePort, SHARE_ENV, getEnvironmentData, isInternalThread, isMainThread,
  isMarkedAsUntransferable, markAsUncloneable, markAsUntransferable, parentPort, receiveMessageOnPort, resourceLimits, setEnvironmentData,
  threadId, threadName, workerData,
};
