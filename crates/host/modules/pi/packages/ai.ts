/**
 * `@earendil-works/pi-ai` and `@mariozechner/pi-ai`: the values that extensions import beside types.
 */

/** A JSON Schema of a string that is one of a list, in the form every provider takes. */
export function StringEnum(
  values: readonly string[],
  options?: { description?: string; default?: string },
): Record<string, unknown> {
  return {
    type: "string",
    enum: [...values],
    ...(options?.description ? { description: options.description } : {}),
    ...(options?.default ? { default: options.default } : {}),
  };
}
