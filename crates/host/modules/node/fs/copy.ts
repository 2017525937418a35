/** `pi:node/fs/copy`: `cp` with a filter: the folder is walked here, since the filter is the extension's. */

import { checkFunction, coded } from "pi:node/errors";
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
  if (options.recursive) return;
  throw coded(Error, "ERR_FS_EISDIR", `Recursive option not enabled, cannot copy a directory: cp returned EISDIR (${from} is a directory (not copied)) ${from}`);
}

export async function copy(from: unknown, to: unknown, options: Options = {}): Promise<undefined> {
  const { filter, ...rest } = options;
  if (filter === undefined) return run(requests.cp(from, to, rest));
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
  if (filter === undefined) return runSync(requests.cp(from, to, rest));
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
