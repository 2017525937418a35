/** `pi:node/fs/stats`: Stats, BigIntStats and Dirent, created from answers of the `fs` connector. */

import { constants } from "pi:node/fs/constants";

export type Kind = "file" | "dir" | "symlink" | "fifo" | "socket" | "char" | "block";

const FORMATS: Record<Kind, number> = {
  file: constants.S_IFREG,
  dir: constants.S_IFDIR,
  symlink: constants.S_IFLNK,
  fifo: constants.S_IFIFO,
  socket: constants.S_IFSOCK,
  char: constants.S_IFCHR,
  block: constants.S_IFBLK,
};

/** A file's metadata in the host's answer. */
export interface WireStat {
  kind: Kind;
  dev: number;
  ino: number;
  mode: number;
  nlink: number;
  uid: number;
  gid: number;
  rdev: number;
  size: number;
  blksize: number;
  blocks: number;
  atimeMs: number;
  mtimeMs: number;
  ctimeMs: number;
  birthtimeMs: number;
}

const FIELDS = ["dev", "mode", "nlink", "uid", "gid", "rdev", "blksize", "ino", "size", "blocks"] as const;
const TIMES = ["atime", "mtime", "ctime", "birthtime"] as const;

/** Methods of Stats and BigIntStats about the kind of file. */
abstract class StatsBase {
  declare mode: number | bigint;

  #is(format: number): boolean {
    return (Number(this.mode) & constants.S_IFMT) === format;
  }
  isFile(): boolean {
    return this.#is(constants.S_IFREG);
  }
  isDirectory(): boolean {
    return this.#is(constants.S_IFDIR);
  }
  isSymbolicLink(): boolean {
    return this.#is(constants.S_IFLNK);
  }
  isFIFO(): boolean {
    return this.#is(constants.S_IFIFO);
  }
  isSocket(): boolean {
    return this.#is(constants.S_IFSOCK);
  }
  isCharacterDevice(): boolean {
    return this.#is(constants.S_IFCHR);
  }
  isBlockDevice(): boolean {
    return this.#is(constants.S_IFBLK);
  }
}

/** Returns permission bits, with the format bits of the kind if the host left them out. */
function modeOf(wire: WireStat): number {
  const mode = wire.mode ?? 0;
  return (mode & constants.S_IFMT) === 0 ? mode | (FORMATS[wire.kind] ?? 0) : mode;
}

export class Stats extends StatsBase {
  declare size: number;
  declare mtimeMs: number;
  declare mtime: Date;

  constructor(wire: WireStat) {
    super();
    const self = this as any;
    for (const field of FIELDS) self[field] = field === "mode" ? modeOf(wire) : (wire[field] ?? 0);
    for (const time of TIMES) self[`${time}Ms`] = wire[`${time}Ms`] ?? 0;
  }
}

export class BigIntStats extends StatsBase {
  constructor(wire: WireStat) {
    super();
    const self = this as any;
    for (const field of FIELDS) self[field] = BigInt(Math.trunc(field === "mode" ? modeOf(wire) : (wire[field] ?? 0)));
    for (const time of TIMES) self[`${time}Ms`] = BigInt(Math.trunc(wire[`${time}Ms`] ?? 0));
    for (const time of TIMES) self[`${time}Ns`] = BigInt(Math.round((wire[`${time}Ms`] ?? 0) * 1e6));
  }
}

// Dates are created on first read, and are not enumerated.
for (const Class of [Stats, BigIntStats]) {
  for (const time of TIMES) {
    const own = (stats: object, value: unknown) => Object.defineProperty(stats, time, { value, writable: true, enumerable: false, configurable: true });
    Object.defineProperty(Class.prototype, time, {
      get(this: any) {
        const date = new Date(Math.round(Number(this[`${time}Ms`])));
        own(this, date);
        return date;
      },
      set(this: object, value: unknown) {
        own(this, value);
      },
      enumerable: true,
      configurable: true,
    });
  }
}

export function statsFrom(wire: WireStat, options?: { bigint?: boolean }): Stats {
  return options?.bigint ? (new BigIntStats(wire) as unknown as Stats) : new Stats(wire);
}

/** Kinds of items, indexed by libuv's numbers. */
const KINDS: (Kind | undefined)[] = [undefined, "file", "dir", "symlink", "fifo", "socket", "char", "block"];
const TYPE = Symbol("type");

/** One entry of a folder. */
export class Dirent<Name = string> {
  readonly name: Name;
  readonly parentPath: string;
  /** Former name of `parentPath`. */
  readonly path: string;
  [TYPE]: number;

  constructor(name: Name, parentPath: string, kind: Kind) {
    this.name = name;
    this.parentPath = parentPath;
    this.path = parentPath;
    this[TYPE] = KINDS.indexOf(kind);
  }

  isFile(): boolean {
    return KINDS[this[TYPE]] === "file";
  }
  isDirectory(): boolean {
    return KINDS[this[TYPE]] === "dir";
  }
  isSymbolicLink(): boolean {
    return KINDS[this[TYPE]] === "symlink";
  }
  isFIFO(): boolean {
    return KINDS[this[TYPE]] === "fifo";
  }
  isSocket(): boolean {
    return KINDS[this[TYPE]] === "socket";
  }
  isCharacterDevice(): boolean {
    return KINDS[this[TYPE]] === "char";
  }
  isBlockDevice(): boolean {
    return KINDS[this[TYPE]] === "block";
  }
}
