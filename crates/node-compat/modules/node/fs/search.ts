/** `pi:node/fs/search`: `fs.glob` in its three forms. A generator requests folders, and each form reads them in its own way. */

import { run, runSync } from "pi:node/fs/requests";
import * as requests from "pi:node/fs/requests";
import { ANY, expand, follows, mayHold, segment } from "pi:node/fs/glob";
import type { Compiled } from "pi:node/fs/glob";
import type { Dirent } from "pi:node/fs/stats";
import path from "node:path";
import process from "node:process";

export interface GlobOptions {
  cwd?: unknown;
  exclude?: ((name: any) => boolean) | string[];
  withFileTypes?: boolean;
}

type Found = string | Dirent;

const isLiteral = (part: string) => !/[*?[\]()!+@]/.test(part);

/** Yields folders, receives their entries, and returns the matches. */
function* search(given: string | string[], options: GlobOptions): Generator<string, Found[], Dirent[]> {
  const root = options.cwd === undefined ? process.cwd() : path.resolve(requests.pathOf(options.cwd) as string);
  const found = new Map<string, Found>();
  for (const pattern of [given].flat().flatMap((text) => expand(String(text).replaceAll("\\", "/")))) {
    const parts = pattern.split("/").filter((part) => part !== "" && part !== ".");
    const prefix: string[] = pattern.startsWith("/") ? ["/"] : [];
    while (parts.length > 1 && isLiteral(parts[0]!)) prefix.push(parts.shift()!);
    yield* walk({ root, prefix: path.join(...prefix), wanted: parts.map(segment), options, found }, []);
  }
  return [...found.values()];
}

interface Walk {
  root: string;
  prefix: string;
  wanted: Compiled;
  options: GlobOptions;
  found: Map<string, Found>;
}

function* walk(search: Walk, names: string[]): Generator<string, void, Dirent[]> {
  const { prefix, wanted, options, found } = search;
  const keep = (shown: string, entry: Dirent | undefined) => {
    if (options.withFileTypes ? entry !== undefined : true) found.set(shown, options.withFileTypes ? entry! : shown);
  };
  const entries = yield path.resolve(search.root, prefix, ...names);
  if (names.length === 0 && wanted.length === 1 && wanted[0] === ANY && entries.length > 0) keep(path.normalize(prefix), undefined);
  const folders: string[] = [];
  for (const entry of entries) {
    if (typeof options.exclude === "function" && options.exclude(options.withFileTypes ? entry : entry.name)) continue;
    const here = [...names, entry.name];
    const isFolder = entry.isDirectory();
    const inside = isFolder && wanted.at(-1) === ANY && follows(wanted.slice(0, -1), 0, here, 0);
    if (inside || follows(wanted, 0, here, 0)) keep(path.join(prefix, ...here), entry);
    if (isFolder && mayHold([wanted], here.join("/"))) folders.push(entry.name);
  }
  for (const folder of folders) yield* walk(search, [...names, folder]);
}

const listing = (folder: string) => requests.readdir(folder, { withFileTypes: true });

export function globSync(pattern: string | string[], options: GlobOptions = {}): Found[] {
  const steps = search(pattern, options);
  let step = steps.next();
  while (!step.done) {
    let entries: Dirent[] = [];
    try {
      entries = runSync(listing(step.value));
    } catch {
      // An unreadable folder has no matches.
    }
    step = steps.next(entries);
  }
  return step.value;
}

export async function* glob(pattern: string | string[], options: GlobOptions = {}): AsyncGenerator<Found> {
  const steps = search(pattern, options);
  let step = steps.next();
  while (!step.done) step = steps.next(await run(listing(step.value)).catch(() => []));
  yield* step.value;
}
