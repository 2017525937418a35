/**
 * Replaces `core/models-store.js` of pi-coding-agent: fetched lists of models. pi keeps them in a file next to `auth.json`;
 * here they live as long as the store.
 */

interface Options {
  signal?: { throwIfAborted(): void } | undefined;
}

export class InMemoryCodingAgentModelsStore {
  readonly #entries = new Map<string, string>();

  async read(provider: string, options?: Options): Promise<any> {
    options?.signal?.throwIfAborted();
    const entry = this.#entries.get(provider);
    return entry === undefined ? undefined : JSON.parse(entry);
  }

  async write(provider: string, entry: object, options?: Options): Promise<void> {
    options?.signal?.throwIfAborted();
    this.#entries.set(provider, JSON.stringify(entry));
  }

  async delete(provider: string, options?: Options): Promise<void> {
    options?.signal?.throwIfAborted();
    this.#entries.delete(provider);
  }
}

export class FileModelsStore extends InMemoryCodingAgentModelsStore {
  constructor(_path?: string) {
    super();
  }
}
