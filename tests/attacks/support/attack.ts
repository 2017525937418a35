/**
 * Reports the results of a hostile extension's attempts. Each is a line `@report {...}` of `console.log`, which a case
 * compares under `expect.reports`.
 */

/** Reports a value under a name. */
export function report(name: string, value: unknown): void {
  console.log("@report " + JSON.stringify({ [name]: value === undefined ? null : value }));
}

/** Runs an attempt and reports `{ ok: value }` or `{ error: {...} }` under `name`; never throws. */
export async function attempt(name: string, work: () => unknown): Promise<void> {
  try {
    const value = await work();
    report(name, { ok: value === undefined ? null : value });
  } catch (error) {
    report(name, { error: told(error) });
  }
}

/** The synchronous variant of `attempt`. */
export function attemptSync(name: string, work: () => unknown): void {
  try {
    const value = work();
    report(name, { ok: value === undefined ? null : value });
  } catch (error) {
    report(name, { error: told(error) });
  }
}

/**
 * An error as a case compares it: `code` and `reason` are those of the taxonomy, also where Node's layer wraps them
 * (`EACCES` is then `errno`).
 */
export function told(error: any): Record<string, unknown> {
  let inner = error;
  for (let depth = 0; depth < 4 && inner && !isTaxonomy(inner); depth++) inner = inner.cause;
  if (!isTaxonomy(inner)) inner = undefined;
  return {
    name: String(error?.name ?? typeof error),
    message: String(error?.message ?? error).slice(0, 300),
    code: inner?.code ?? null,
    reason: inner?.details?.reason ?? null,
    errno: inner === error ? null : (error?.code ?? null),
  };
}

function isTaxonomy(error: any): boolean {
  return ["timeout", "denied", "io", "invalid_request", "internal"].includes(error?.code);
}
