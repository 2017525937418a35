/** `node:stream/web`: the web streams, which are also globals. */

import * as streams from "pi:web/streams";
import { CompressionStream, DecompressionStream } from "pi:web/compression";

export {
  ByteLengthQueuingStrategy, CountQueuingStrategy, ReadableByteStreamController, ReadableStream, ReadableStreamBYOBReader, ReadableStreamBYOBRequest,
  ReadableStreamDefaultController, ReadableStreamDefaultReader, TextDecoderStream, TextEncoderStream, TransformStream, TransformStreamDefaultController,
  WritableStream, WritableStreamDefaultController, WritableStreamDefaultWriter,
} from "pi:web/streams";
export { CompressionStream, DecompressionStream };

export default { ...streams, CompressionStream, DecompressionStream };
