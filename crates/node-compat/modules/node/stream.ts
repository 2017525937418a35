/** `node:stream`: the stream classes, and functions on whole streams. The default export is `Stream`, as in Node. */

import { importSync } from "pi:engine";
import { Duplex, PassThrough, Transform } from "pi:node/stream/duplex";
import { addAbortSignal, finished, finishedPromise } from "pi:node/stream/finished";
import { Stream } from "pi:node/stream/legacy";
import { pipeline, pipelinePromise } from "pi:node/stream/pipeline";
import { Readable } from "pi:node/stream/readable";
import { destroyer as destroy, getDefaultHighWaterMark, isDestroyed, isDisturbed, isErrored, isReadable, isWritable, setDefaultHighWaterMark } from "pi:node/stream/state";
import { Writable } from "pi:node/stream/writable";
import { compose, duplexPair } from "pi:node/stream/compose";
import "pi:node/stream/operators";

const promises = { finished: finishedPromise, pipeline: pipelinePromise };
const PROMISIFY = Symbol.for("nodejs.util.promisify.custom");
Object.defineProperty(finished, PROMISIFY, { value: finishedPromise });
Object.defineProperty(pipeline, PROMISIFY, { value: pipelinePromise });

const _isUint8Array = (value: unknown): boolean => value instanceof Uint8Array;
const _uint8ArrayToBuffer = (bytes: Uint8Array): unknown => importSync("node:buffer").Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);

Object.assign(Stream, {
  Stream, Readable, Writable, Duplex, Transform, PassThrough, pipeline, finished, addAbortSignal, compose, duplexPair, destroy, isDestroyed, isDisturbed,
  isErrored, isReadable, isWritable, getDefaultHighWaterMark, setDefaultHighWaterMark, promises, _isUint8Array, _uint8ArrayToBuffer,
});

export {
  Stream, Readable, Writable, Duplex, Transform, PassThrough, pipeline, finished, addAbortSignal, compose, duplexPair, destroy, isDestroyed, isDisturbed,
  isErrored, isReadable, isWritable, getDefaultHighWaterMark, setDefaultHighWaterMark, promises, _isUint8Array, _uint8ArrayToBuffer,
};
export default Stream;
