/** `node:v8`: can be imported and extended; using it says what to do instead. */

import { refuse } from "pi:node/refuse";

const refused = refuse("node:v8", "the engine is not V8", [
  "serialize", "deserialize", "getHeapSnapshot", "writeHeapSnapshot", "takeCoverage", "stopCoverage", "startupSnapshot", "Serializer",
  "Deserializer", "DefaultSerializer", "DefaultDeserializer",
]);

export const {
  serialize, deserialize, getHeapSnapshot, writeHeapSnapshot, takeCoverage, stopCoverage, startupSnapshot, Serializer, Deserializer,
  DefaultSerializer, DefaultDeserializer,
} = refused;

export function getHeapStatistics(): Record<string, number> {
  return { total_heap_size: 0, used_heap_size: 0, heap_size_limit: 256 << 20 };
}
export function getHeapSpaceStatistics(): object[] {
  return [];
}
export function setFlagsFromString(): void {}
export function cachedDataVersionTag(): number {
  return 0;
}

export default { ...refused, getHeapStatistics, getHeapSpaceStatistics, setFlagsFromString, cachedDataVersionTag };
