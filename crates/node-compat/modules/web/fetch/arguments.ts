/** `pi:web/fetch/arguments`: argument checks of Headers, FormData, Request and Response, with undici's messages. */

/** Checks that `method` received at least `count` arguments. */
export function needs(count: number, method: string, given: ArrayLike<unknown>): void {
  const { length } = given;
  if (length >= count) return;
  throw new TypeError(`${method}: ${count} argument${count === 1 ? "" : "s"} required, but${length > 0 ? " only" : ""} ${length} found.`);
}

export function needsFunction(name: string, callback: unknown): void {
  if (typeof callback === "function") return;
  throw new TypeError(`Failed to execute 'forEach' on '${name}': parameter 1 is not of type 'Function'.`);
}

/** Checks that all characters of a text are bytes. */
export function byteString(value: unknown): string {
  const text = `${value as string}`;
  const at = text.search(/[^\0-\xff]/);
  if (at < 0) return text;
  throw new TypeError(
    `Cannot convert argument to a ByteString because the character at index ${at} has a value of ${text.charCodeAt(at)} which is greater than 255.`,
  );
}

/** Checks that an option has one of the given values. */
export function oneOf(constructor: string, value: unknown, words: string[]): void {
  if (value === undefined || words.includes(`${value as string}`)) return;
  throw new TypeError(`${constructor} constructor: ${value as string} is not an accepted type. Expected one of ${words.join(", ")}.`);
}
