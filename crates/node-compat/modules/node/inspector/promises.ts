/** `node:inspector/promises`: like `node:inspector`, with a session that returns promises. */

import { refuse } from "pi:node/refuse";

const advice = "debug with a tape: pi replay";
const refused = refuse("node:inspector/promises", advice, ["open", "close", "Session", "waitForDebugger"]);

export const { open, close, Session, waitForDebugger } = refused;

/** Network events that a debugger receives. */
export const Network = refuse("node:inspector/promises.Network", advice, [
  "requestWillBeSent", "responseReceived", "loadingFinished", "loadingFailed", "dataSent", "dataReceived",
]);
export const NetworkResources = refuse("node:inspector/promises.NetworkResources", advice, ["put"]);

export const url = (): undefined => undefined;
export const console: undefined = undefined;

export default { ...refused, Network, NetworkResources, url, console };
