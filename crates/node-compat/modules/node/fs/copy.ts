/** `pi:node/fs/copy`: `cp` with a filter. This module walks the folder, since the filter is the extension's function. */

import { checkFunction, coded } from "pi:node/errors";
import { dirname } from "node:path";
import * as requests from "pi:node/fs/requests";
import { run, runSync } from "pi:node/fs/requests";

interface Options {
  recursive?: boolean;
  force?: boolean;
  errorOnExist?: boolean;
  filter?: (from: string, to: string) => boolean | Promise<boolean>;
}

const join = (folder: string, name: string) => `${folder.replace(/\/$/, "")}/${name}`;

function needsRecursive(from: string, options: Options): void {
  if (!options.recursive) throw isFolder(from, `cp returned EISDIR (${from} is a directory (not copied)) ${from}`);
}

function isFolder(from: string, words = `${from.replace(/\/$/, "")}/`): Error {
  return coded(Error, "ERR_FS_EISDIR", `Recursive option not enabled, cannot copy a directory: ${words}`);
}

function isThere(path: string): boolean {
  try {
    return runSync(requests.exists(path));
  } catch {
    // Inaccessible to this extension, so treated as missing.
    return false;
  }
}

/** Returns whether a copy failed because the target folder is missing, which `cp` then creates. */
function lacksFolder(failure: any, from: string, to: string): boolean {
  return failure?.code === "ENOENT" && isThere(from) && !isThere(dirname(to));
}

async function whole(from: unknown, to: unknown, options: Options): Promise<undefined> {
  try {
    return await run(requests.cp(from, to, options));
  } catch (failure) {
    const [source, target] = [requests.pathOf(from, "src"), requests.pathOf(to, "dest")];
    if (!lacksFolder(failure, source, target)) throw failure;
    await run(requests.mkdir(dirname(target), { recursive: true }));
    return run(requests.cp(source, target, options));
  }
}

function wholeSync(from: unknown, to: unknown, options: Options): undefined {
  try {
    return runSync(requests.cp(from, to, options));
  } catch (failure) {
    const [source, target] = [requests.pathOf(from, "src"), requests.pathOf(to, "dest")];
    if ((failure as any)?.code === "ERR_FS_EISDIR") throw isFolder(source);
    if (!lacksFolder(failure, source, target)) throw failure;
    runSync(requests.mkdir(dirname(target), { recursive: true }));
    return runSync(requests.cp(source, target, options));
  }
}

export async function copy(from: unknown, to: unknown, options: Options = {}): Promise<undefined> {
  const { filter, ...rest } = options;
  if (filter === undefined) return whole(from, to, rest);
  checkFunction("options.filter", filter);
  const [source, target] = [requests.pathOf(from, "src"), requests.pathOf(to, "dest")];
  if (!(await filter(source, target))) return undefined;
  const stat: any = await run(requests.stat("lstat", source));
  if (!stat.isDirectory()) return run(requests.cp(source, target, rest));
  needsRecursive(source, options);
  await run(requests.mkdir(target, { recursive: true }));
  for (const name of await run(requests.readdir(source))) await copy(join(source, name), join(target, name), options);
  return undefined;
}

export function copySync(from: unknown, to: unknown, options: Options = {}): undefined {
  const { filter, ...rest } = options;
  if (filter === undefined) return wholeSync(from, to, rest);
  checkFunction("options.filter", filter);
  const [source, target] = [requests.pathOf(from, "src"), requests.pathOf(to, "dest")];
  if (!filter(source, target)) return undefined;
  const stat: any = runSync(requests.stat("lstat", source));
  if (!stat.isDirectory()) return runSync(requests.cp(source, target, rest));
  needsRecursive(source, options);
  runSync(requests.mkdir(target, { recursive: true }));
  for (const name of runSync(requests.readdir(source))) copySync(join(source, name), join(target, name), options);
  return undefined;
}
