/**
 * `pi:pi/refreshing`: refreshes model lists of providers.
 *
 * The host requests a refresh when a session begins, and when an extension calls `ctx.modelRegistry.refresh()`. The result
 * replaces the registered list. As in pi, a refresh without network access precedes one with it.
 */

import { AbortController } from "pi:web/abort";
import { structuredClone } from "pi:web/clone";

type Config = Record<string, any>;

/** Values that a provider keeps for the next refresh, for the lifetime of this realm. */
const kept = new Map<string, unknown>();

interface Look {
  provider: string;
  /** Calls the provider's refresh function. */
  run(context: object): unknown;
  /** Returns the placeholder for the provider's key, if there is a key. */
  credential(): Promise<object | undefined>;
  /** Replaces the registered list. */
  put(models: unknown): void;
}

/** Returns the function that the host calls for a refresh. */
export function refreshThrough({ provider, run, credential, put }: Look) {
  const look = async (allowNetwork: boolean, more: object) => {
    const context = {
      stored: structuredClone(kept.get(provider)),
      publish: async ({ persist, update }: Config): Promise<boolean> => {
        if (persist === null) kept.delete(provider);
        else if (persist !== undefined) kept.set(provider, structuredClone(persist));
        update?.();
        return true;
      },
      allowNetwork,
      signal: new AbortController().signal,
      ...more,
    };
    put(await run(context));
  };
  return async function refreshModels({ allowNetwork, force }: { allowNetwork?: boolean; force?: boolean } = {}): Promise<void> {
    await look(false, { credential: undefined, force: undefined });
    if (!allowNetwork) return;
    const known = await credential();
    if (known !== undefined) await look(true, { credential: known, force });
  };
}
