/**
 * `pi:pi/refreshing`: lists of models that a provider looks up.
 *
 * The host asks when a session begins, and when an extension calls `ctx.modelRegistry.refresh()`. What comes of it takes
 * the place of the list that was registered. As under pi a look without the network goes before one with it.
 */

import { AbortController } from "pi:web/abort";
import { structuredClone } from "pi:web/clone";

type Config = Record<string, any>;

/** What a provider gives to be there the next time: as long as this realm lives. */
const kept = new Map<string, unknown>();

interface Look {
  provider: string;
  /** The provider's own function. */
  run(context: object): unknown;
  /** What stands for its key, if there is one. */
  credential(): Promise<object | undefined>;
  /** Puts a list in the place of the one that was registered. */
  put(models: unknown): void;
}

/** The function that the host calls. */
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
