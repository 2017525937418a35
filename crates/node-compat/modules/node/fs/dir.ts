/** `pi:node/fs/dir`: Dir, the handle of `fs.opendir`. Reads all entries at once and returns them one by one. */

import { coded } from "pi:node/errors";
import type { Dirent } from "pi:node/fs/stats";
import { whenSettled } from "pi:web/ticks";

type Done<T> = (error: unknown, value?: T) => void;

export class Dir {
  readonly path: string;
  #entries: Dirent[];
  #at = 0;
  #closed = false;

  constructor(path: string, entries: Dirent[]) {
    this.path = path;
    this.#entries = entries;
  }

  readSync(): Dirent | null {
    if (this.#closed) throw coded(Error, "ERR_DIR_CLOSED", "Directory handle was closed");
    return this.#entries[this.#at++] ?? null;
  }
  closeSync(): void {
    if (this.#closed) throw coded(Error, "ERR_DIR_CLOSED", "Directory handle was closed");
    this.#closed = true;
  }
  read(done?: Done<Dirent | null>): Promise<Dirent | null> | void {
    const result = new Promise<Dirent | null>((resolve) => resolve(this.readSync()));
    if (!done) return result;
    whenSettled(result, (entry) => done(null, entry), done);
  }
  close(done?: Done<void>): Promise<void> | void {
    const result = new Promise<void>((resolve) => resolve(this.closeSync()));
    if (!done) return result;
    whenSettled(result, () => done(null), done);
  }

  async *entries(): AsyncGenerator<Dirent> {
    try {
      for (let entry = this.readSync(); entry; entry = this.readSync()) yield entry;
    } finally {
      if (!this.#closed) this.closeSync();
    }
  }
  [Symbol.asyncIterator](): AsyncGenerator<Dirent> {
    return this.entries();
  }
}
