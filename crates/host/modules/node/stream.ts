/** `node:stream`: can be imported and extended; using it says what to do instead. */

import promises from "node:stream/promises";
import { refuse } from "pi:node/refuse";

const refused = refuse("node:stream", "streams are not there yet; use readFile, writeFile, fetch's text() and async iterators", [
  "Stream", "Readable", "Writable", "Duplex", "Transform", "PassThrough", "pipeline", "finished", "addAbortSignal", "compose",
  "duplexPair", "isDisturbed", "isErrored", "isReadable", "getDefaultHighWaterMark", "setDefaultHighWaterMark",
]);

export const {
  Stream, Readable, Writable, Duplex, Transform, PassThrough, pipeline, finished, addAbortSignal, compose, duplexPair, isDisturbed,
  isErrored, isReadable, getDefaultHighWaterMark, setDefaultHighWaterMark,
} = refused;

export { default as promises } from "node:stream/promises";

export default { ...refused, promises };
