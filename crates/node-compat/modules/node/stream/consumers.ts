/** `node:stream/consumers`: reads the whole content of a stream as one of five types. */

import { Buffer } from "node:buffer";
import { Blob } from "pi:web/blob";
import { TextDecoder } from "pi:web/encoding";

type Source = AsyncIterable<any> | Iterable<any>;

export async function blob(stream: Source): Promise<Blob> {
  const parts: any[] = [];
  for await (const chunk of stream) parts.push(chunk);
  return new Blob(parts);
}
export async function arrayBuffer(stream: Source): Promise<ArrayBuffer> {
  return (await blob(stream)).arrayBuffer();
}
export async function buffer(stream: Source): Promise<Buffer> {
  return Buffer.from(await arrayBuffer(stream));
}
export async function text(stream: Source): Promise<string> {
  const decoder = new TextDecoder();
  let all = "";
  for await (const chunk of stream) all += typeof chunk === "string" ? chunk : decoder.decode(chunk, { stream: true });
  return all + decoder.decode();
}
export async function json(stream: Source): Promise<any> {
  return JSON.parse(await text(stream));
}

export default { arrayBuffer, blob, buffer, text, json };
