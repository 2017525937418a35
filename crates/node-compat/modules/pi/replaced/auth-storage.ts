/**
 * Replaces `core/auth-storage.js` of pi-coding-agent: keys of the session, by name.
 *
 * pi's module reads and writes `auth.json`, which extensions cannot access. This store knows which providers of the session have
 * a key and returns placeholders; credentials that an extension adds are its own and live as long as the store.
 */

import { KEY_NAME, modelRegistry } from "pi:pi/models";

interface Credential {
  type: string;
  key?: string;
  [member: string]: unknown;
}

interface Options {
  signal?: { throwIfAborted(): void } | undefined;
}

type Data = Record<string, Credential>;

function sessionCredential(provider: string): Credential | undefined {
  const known = modelRegistry.hasConfiguredAuth({ provider, id: "" }) && !modelRegistry.getRegisteredProviderIds().includes(provider);
  return known ? { type: "api_key", key: `${KEY_NAME}${provider}` } : undefined;
}

const sessionProviders = (): string[] => [...new Set(modelRegistry.getAll().map((model) => model.provider))];

/** Credentials by provider. */
export class AuthStorage {
  readonly #own = new Map<string, Credential>();
  readonly #removed = new Set<string>();
  readonly #isSession: boolean;

  private constructor(own: Data, isSession: boolean) {
    for (const [provider, credential] of Object.entries(own)) this.#own.set(provider, credential);
    this.#isSession = isSession;
  }

  /** Returns the session's credentials for any path, since the file is inaccessible. */
  static create(_authPath?: string): AuthStorage {
    return new AuthStorage({}, true);
  }

  static inMemory(data: Data = {}): AuthStorage {
    return new AuthStorage(data, false);
  }

  reload(): void {}

  #find(provider: string): Credential | undefined {
    const own = this.#own.get(provider);
    return own ?? (this.#isSession && !this.#removed.has(provider) ? sessionCredential(provider) : undefined);
  }

  async read(provider: string, options?: Options): Promise<Credential | undefined> {
    options?.signal?.throwIfAborted();
    return this.#find(provider);
  }

  async modify(
    provider: string,
    change: (current: Credential | undefined) => Promise<Credential | undefined>,
    options?: Options,
  ): Promise<Credential | undefined> {
    options?.signal?.throwIfAborted();
    const next = await change(this.#find(provider));
    if (next !== undefined) this.#own.set(provider, next);
    return next ?? this.#find(provider);
  }

  async delete(provider: string, options?: Options): Promise<void> {
    options?.signal?.throwIfAborted();
    this.#own.delete(provider);
    this.#removed.add(provider);
  }

  async list(options?: Options): Promise<readonly { providerId: string; type: string }[]> {
    options?.signal?.throwIfAborted();
    const providers = new Set([...this.#own.keys(), ...(this.#isSession ? sessionProviders() : [])]);
    return [...providers].flatMap((providerId) => {
      const credential = this.#find(providerId);
      return credential ? [{ providerId, type: credential.type }] : [];
    });
  }
}

/** Returns the placeholder for the session's key of a provider. */
export function readStoredCredential(provider: string, _authPath?: string): Credential | undefined {
  return sessionCredential(provider);
}
