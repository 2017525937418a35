/** `pi:web/streams`: the Streams standard (WHATWG): readable, writable, transform and text streams. */

export { ByteLengthQueuingStrategy, CountQueuingStrategy } from "pi:web/streams/queue";
export {
  ReadableByteStreamController, ReadableStream, ReadableStreamBYOBReader, ReadableStreamBYOBRequest, ReadableStreamDefaultController,
  ReadableStreamDefaultReader,
} from "pi:web/streams/readable";
export { WritableStream, WritableStreamDefaultController, WritableStreamDefaultWriter } from "pi:web/streams/writable";
export { TransformStream, TransformStreamDefaultController } from "pi:web/streams/transform";
export { TextDecoderStream, TextEncoderStream } from "pi:web/streams/text";
