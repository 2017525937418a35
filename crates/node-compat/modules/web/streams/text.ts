/** `pi:web/streams/text`: streaming text encoder and decoder. */

import { TextDecoder, TextEncoder } from "pi:web/encoding";
import { TransformStream } from "pi:web/streams/transform";

export class TextEncoderStream {
  #stream: TransformStream;

  constructor() {
    const encoder = new TextEncoder();
    let high = "";
    this.#stream = new TransformStream({
      transform(chunk, controller) {
        let text = high + String(chunk);
        high = "";
        // Keeps a high surrogate until its low surrogate arrives.
        if (/[\ud800-\udbff]$/.test(text)) {
          high = text.slice(-1);
          text = text.slice(0, -1);
        }
        if (text !== "") controller.enqueue(encoder.encode(text));
      },
      flush(controller) {
        if (high !== "") controller.enqueue(encoder.encode(high));
      },
    });
  }
  get encoding(): string {
    return "utf-8";
  }
  get readable(): TransformStream["readable"] {
    return this.#stream.readable;
  }
  get writable(): TransformStream["writable"] {
    return this.#stream.writable;
  }
  get [Symbol.toStringTag](): string {
    return "TextEncoderStream";
  }
}

export class TextDecoderStream {
  #stream: TransformStream;
  #decoder: TextDecoder;

  constructor(label: string = "utf-8", options: { fatal?: boolean; ignoreBOM?: boolean } = {}) {
    const decoder = (this.#decoder = new TextDecoder(label, options));
    this.#stream = new TransformStream({
      transform(chunk, controller) {
        const text = decoder.decode(chunk, { stream: true });
        if (text !== "") controller.enqueue(text);
      },
      flush(controller) {
        const text = decoder.decode();
        if (text !== "") controller.enqueue(text);
      },
    });
  }
  get encoding(): string {
    return this.#decoder.encoding;
  }
  get fatal(): boolean {
    return this.#decoder.fatal;
  }
  get ignoreBOM(): boolean {
    return this.#decoder.ignoreBOM;
  }
  get readable(): TransformStream["readable"] {
    return this.#stream.readable;
  }
  get writable(): TransformStream["writable"] {
    return this.#stream.writable;
  }
  get [Symbol.toStringTag](): string {
    return "TextDecoderStream";
  }
}
