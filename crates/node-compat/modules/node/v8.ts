/** `node:v8`: serialisation in V8's format, and figures of the realm's memory. Features specific to V8 throw a hint. */

import { absent, refuse } from "pi:node/refuse";
import { checkString, invalidArgType } from "pi:node/errors";
import { DefaultDeserializer, Deserializer } from "pi:node/v8/deserializer";
import { DefaultSerializer, Serializer } from "pi:node/v8/serializer";
import process from "node:process";

const ADVICE = "the engine is not V8";
const refused = refuse("node:v8", ADVICE, ["getHeapSnapshot", "writeHeapSnapshot", "takeCoverage", "stopCoverage", "queryObjects", "GCProfiler", "getCppHeapStatistics"]);

export const { getHeapSnapshot, writeHeapSnapshot, takeCoverage, stopCoverage, queryObjects, GCProfiler, getCppHeapStatistics } = refused;

export function serialize(value: unknown): Uint8Array {
  const serializer = new DefaultSerializer();
  serializer.writeHeader();
  serializer.writeValue(value);
  return serializer.releaseBuffer();
}

export function deserialize(buffer: any): any {
  const deserializer = new DefaultDeserializer(buffer);
  deserializer.readHeader();
  return deserializer.readValue();
}

export function getHeapStatistics(): Record<string, number> {
  const { heapTotal, heapUsed, external } = process.memoryUsage();
  const limit = process.constrainedMemory();
  return {
    total_heap_size: heapTotal, total_heap_size_executable: 0, total_physical_size: heapTotal, total_available_size: limit - heapUsed,
    used_heap_size: heapUsed, heap_size_limit: limit, malloced_memory: 0, peak_malloced_memory: 0, does_zap_garbage: 0,
    number_of_native_contexts: 1, number_of_detached_contexts: 0, total_global_handles_size: 0, used_global_handles_size: 0,
    external_memory: external,
  };
}

const SPACES = ["read_only", "new", "old", "code", "shared", "trusted", "new_large_object", "large_object", "code_large_object", "shared_large_object", "trusted_large_object"];

/** Returns V8's heap spaces, with the whole heap reported as the old space. */
export function getHeapSpaceStatistics(): object[] {
  const { heapTotal, heapUsed } = process.memoryUsage();
  return SPACES.map((name) => {
    const [size, used] = name === "old" ? [heapTotal, heapUsed] : [0, 0];
    return { space_name: `${name}_space`, space_size: size, space_used_size: used, space_available_size: size - used, physical_space_size: size };
  });
}

export function getHeapCodeStatistics(): Record<string, number> {
  return { code_and_metadata_size: 0, bytecode_and_metadata_size: 0, external_script_source_size: 0, cpu_profiler_metadata_size: 0 };
}

/** Does nothing, since V8's flags have no effect. */
export function setFlagsFromString(flags: string): void {
  checkString("flags", flags);
}
export function setHeapSnapshotNearHeapLimit(): void {}
export function cachedDataVersionTag(): number {
  return 0;
}
export function isStringOneByteRepresentation(content: string): boolean {
  if (typeof content !== "string") throw invalidArgType("content", "of type string", content);
  for (let at = 0; at < content.length; at++) if (content.charCodeAt(at) > 0xff) return false;
  return true;
}

const hook = (name: string) => absent(`node:v8.promiseHooks.${name}`, ADVICE);
export const promiseHooks = { createHook: hook("createHook"), onInit: hook("onInit"), onBefore: hook("onBefore"), onAfter: hook("onAfter"), onSettled: hook("onSettled") };

const snapshot = (name: string) => absent(`node:v8.startupSnapshot.${name}`, ADVICE);
export const startupSnapshot = {
  addDeserializeCallback: snapshot("addDeserializeCallback"), addSerializeCallback: snapshot("addSerializeCallback"),
  setDeserializeMainFunction: snapshot("setDeserializeMainFunction"), isBuildingSnapshot: () => false,
};

export { DefaultDeserializer, DefaultSerializer, Deserializer, Serializer };
export default {
  ...refused, DefaultDeserializer, DefaultSerializer, Deserializer, Serializer, cachedDataVersionTag, deserialize,
  getHeapCodeStatistics, getHeapSpaceStatistics, getHeapStatistics, isStringOneByteRepresentation, promiseHooks, serialize,
  setFlagsFromString, setHeapSnapshotNearHeapLimit, startupSnapshot,
};
