/** The bundled tools of the model: entries and files, commands, questions, updates. */

import { spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdir, readFile, rm as removeFile, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { env } from "node:process";
import { edit, patch } from "./edits.ts";
import { db } from "../entries.ts";
import { type Action, attributes, type Core, failed, finish, isFile, isGlob, loggedAction, type Rummy, tool } from "./shared.ts";

const TERMINAL = new Set([200, 204, 422, 500]);

/** Returns the content of a file, from the store or otherwise from disk; null if the file does not exist. */
async function contentOf(rummy: Rummy, path: string): Promise<string | null> {
  const stored = await rummy.getBody(path);
  if (stored !== null && stored !== undefined) return stored;
  return isFile(path) ? fileOf(rummy.project?.project_root ?? ".", path) : null;
}

async function fileOf(root: string, path: string): Promise<string | null> {
  try {
    return await readFile(join(root, path), "utf8");
  } catch (error) {
    if ((error as { code?: string }).code === "ENOENT") return null;
    throw error;
  }
}

/** Writes a file. The folder is created only if it does not exist, because that prompts the user separately. */
async function writeContent(file: string, content: string): Promise<void> {
  const folder = dirname(file);
  if (!existsSync(folder)) await mkdir(folder, { recursive: true });
  await writeFile(file, content);
}

const MAX_TOKENS = Number(env.RUMMY_MAX_ENTRY_TOKENS ?? 512);
const tokensOf = (text: string): number => Math.ceil(text.length / Number(env.RUMMY_TOKEN_DIVISOR ?? 2));

/** Maximum number of characters of a description that the model gives an entry. */
const MAX_DESCRIBED = 80;

/** Returns the description in the attributes of a tag. Without one, the entry keeps its description. */
function descriptionOf({ tags, summary }: { tags?: unknown; summary?: unknown }): Record<string, string> | undefined {
  const given = Object.entries({ tags, summary }).filter(([, text]) => text !== undefined && text !== null);
  return given.length === 0 ? undefined : Object.fromEntries(given.map(([name, text]) => [name, String(text).slice(0, MAX_DESCRIBED)]));
}

const target = (entry: Action): string => String(entry.attributes.path ?? entry.body ?? "").trim();

export class Get {
  constructor(core: Core) {
    tool(core, ["## get", '<get path="src/*.js"/>', "* Shows entries and files; * and ? match several", '<get path="a.js" line="10" limit="20"/>', "* Shows a part of one"], this.handler.bind(this));
  }

  async handler(entry: Action, rummy: Rummy): Promise<void> {
    const path = target(entry);
    const { line, limit, visibility = "visible" } = entry.attributes;
    if (path === "") return failed(rummy, entry, "validation", "get: path is required");
    const isPart = line !== undefined || limit !== undefined;
    if (isPart && isGlob(path)) return failed(rummy, entry, "validation", "get: line and limit need one path, not a pattern");
    if (isFile(path) && !isGlob(path)) {
      const onDisk = await fileOf(rummy.project?.project_root ?? ".", path);
      if (onDisk !== null && onDisk !== (await rummy.getBody(path))) {
        await rummy.entries.set({ runId: rummy.runId, turn: rummy.sequence, loopId: rummy.loopId, path, body: onDisk, state: "resolved" });
      }
    }
    const found = await rummy.getEntries(path);
    if (found.length === 0) return failed(rummy, entry, "not_found", `${path} not found`);
    if (isPart) {
      // A final line break does not begin another line.
      const lines = String(found[0].body).replace(/\n$/, "").split("\n");
      const first = Number(line ?? 1);
      const start = first < 0 ? Math.max(0, lines.length + first) : Math.max(0, first - 1);
      const part = lines.slice(start, limit === undefined ? undefined : start + Number(limit));
      return finish(rummy, entry, part.join("\n"));
    }
    await rummy.entries.get({ runId: rummy.runId, turn: rummy.sequence, path, bodyFilter: entry.attributes.path ? entry.body || null : null, visibility });
    return finish(rummy, entry, found.map((one: any) => one.path).join("\n"));
  }
}

export class Set_ {
  constructor(core: Core) {
    tool(core, [
      "## set", '<set path="known://topic" tags="a,b">what is known</set>', "* Writes an entry", '<set path="src/a.js">', "<<:::SEARCH", "old",
      ":::SEARCH", "<<:::REPLACE", "new", ":::REPLACE", "</set>", "* Edits a file; without markers the body is the whole content",
    ], this.handler.bind(this));
    core.on("proposal.accepted", this.write.bind(this));
  }

  async handler(entry: Action, rummy: Rummy): Promise<void> {
    const { path: given, visibility } = entry.attributes;
    const described = descriptionOf(entry.attributes);
    const path = String(given ?? "").trim();
    if (path === "") return failed(rummy, entry, "validation", "set: path is required");
    const { operations, blocks, search } = entry.attributes;
    if (entry.body.trim() === "" && visibility !== undefined && !operations && !blocks && !search) {
      await rummy.entries.set({ runId: rummy.runId, turn: rummy.sequence, path, visibility, pattern: isGlob(path) });
      if (described !== undefined && !isGlob(path)) await rummy.setAttributes(path, described);
      return finish(rummy, entry, `${path} is ${visibility}`);
    }
    const before = await contentOf(rummy, path);
    const { body, error } = edit(before, entry.body, entry.attributes);
    if (body === undefined) return failed(rummy, entry, "conflict", `set: ${error}`);
    const cost = path.startsWith("known://") ? tokensOf(body) : 0;
    if (cost > MAX_TOKENS) {
      return failed(rummy, entry, "overflow:413", `${path} would have ${cost} tokens, at most ${MAX_TOKENS} are allowed: write one fact per entry, in several entries`);
    }
    if (isFile(path)) {
      const merged = { path, content: body, existed: before !== null };
      return finish(rummy, entry, patch(path, before ?? "", body), { state: "proposed", attributes: merged });
    }
    await rummy.set({ path, body, visibility, attributes: described });
    return finish(rummy, entry, path);
  }

  /** Writes an accepted file, and the entry that represents it. */
  async write({ path, attrs, projectRoot, entries, runId }: any): Promise<void> {
    if (loggedAction(path)?.action !== "set" || attrs?.content === undefined) return;
    await writeContent(join(projectRoot, attrs.path), attrs.content);
    await entries.set({ runId, path: attrs.path, body: attrs.content, state: "resolved", visibility: "visible" });
  }
}

export class Rm {
  constructor(core: Core) {
    tool(core, ["## rm", '<rm path="known://topic"/>', "* Removes entries or a file"], this.handler.bind(this));
    core.on("proposal.accepted", this.remove.bind(this));
  }

  async handler(entry: Action, rummy: Rummy): Promise<void> {
    const path = target(entry);
    const found = await rummy.getEntries(path);
    if (isFile(path) && !isGlob(path)) {
      if (found.length === 0 && (await contentOf(rummy, path)) === null) return failed(rummy, entry, "not_found", `${path} not found`);
      return finish(rummy, entry, `rm ${path}`, { state: "proposed", attributes: { path } });
    }
    if (found.length === 0) return failed(rummy, entry, "not_found", `${path} not found`);
    for (const one of found) await rummy.rm(one.path);
    return finish(rummy, entry, found.map((one: any) => one.path).join("\n"));
  }

  async remove({ path, attrs, projectRoot, entries, runId }: any): Promise<void> {
    if (loggedAction(path)?.action !== "rm" || attrs?.path === undefined) return;
    await removeFile(join(projectRoot, attrs.path), { force: true });
    await entries.rm({ runId, path: attrs.path });
  }
}

/** Implements `cp` and `mv`. */
class Relocate {
  constructor(core: Core, moves: boolean) {
    tool(core, [`## ${core.name}`, `<${core.name} path="known://a" to="known://b"/>`, moves ? "* Renames an entry" : "* Copies an entry"], async (entry: Action, rummy: Rummy) => {
      const from = String(entry.attributes.path ?? "").trim();
      const to = String(entry.attributes.to ?? entry.body ?? "").trim();
      if (from === "" || to === "") return failed(rummy, entry, "validation", `${core.name}: path and to are required`);
      const body = await contentOf(rummy, from);
      if (body === null) return failed(rummy, entry, "not_found", `${from} not found`);
      if (isFile(to) || (moves && isFile(from))) {
        return finish(rummy, entry, `${core.name} ${from} ${to}`, { state: "proposed", attributes: { path: from, to, content: body } });
      }
      await rummy.set({ path: to, body, visibility: entry.attributes.visibility });
      if (moves) await rummy.rm(from);
      return finish(rummy, entry, to);
    });
    core.on("proposal.accepted", async ({ path, attrs, projectRoot, entries, runId }: any) => {
      if (loggedAction(path)?.action !== core.name || attrs?.content === undefined) return;
      if (isFile(attrs.to)) await writeContent(join(projectRoot, attrs.to), attrs.content);
      await entries.set({ runId, path: attrs.to, body: attrs.content, state: "resolved" });
      if (!moves) return;
      if (isFile(attrs.path)) await removeFile(join(projectRoot, attrs.path), { force: true });
      await entries.rm({ runId, path: attrs.path });
    });
  }
}

export class Cp extends Relocate {
  constructor(core: Core) {
    super(core, false);
  }
}

export class Mv extends Relocate {
  constructor(core: Core) {
    super(core, true);
  }
}

/** Implements `sh` and `env`: a command waits until it is accepted, then its output is appended to two channels. */
class Command {
  /** Functions that stop the commands running in this realm, by log entry. */
  readonly #stop = new Map<string, () => void>();

  constructor(core: Core, what: string) {
    core.registerScheme({ category: "data" });
    core.ensureTool();
    core.on("visible", (entry: any) => entry.body);
    core.on("summarized", () => "");
    core.on("handler", async (entry: Action, rummy: Rummy) => {
      const command = String(entry.attributes.command ?? entry.body ?? "").trim();
      if (command === "") return failed(rummy, entry, "validation", `${core.name}: a command is required`);
      return finish(rummy, entry, "", { state: "proposed", attributes: { command, tags: command } });
    });
    core.on("proposal.accepted", async ({ path, attrs, projectRoot, entries, runId, runsCommand }: any) => {
      if (loggedAction(path)?.action !== core.name || attrs?.command === undefined) return;
      await entries.openStream(runId, path, attrs.command, [1, 2]);
      // Otherwise the client that accepted the command runs it and streams the output.
      if (runsCommand) await this.#run(entries, runId, path, attrs.command, projectRoot);
    });
    core.on("stream.cancelled", ({ run, path }: any) => this.#stop.get(`${run} ${path}`)?.());
    core.filter("instructions.toolDocs", async (docs: Record<string, string>) => {
      docs[core.name] = [`## ${core.name}`, `<${core.name}>command</${core.name}>`, `* ${what}`].join("\n");
      return docs;
    });
  }

  /** Runs a command. Each piece of output is appended to its channel as it arrives. */
  async #run(entries: any, runId: number, path: string, command: string, cwd: string): Promise<void> {
    const { alias } = (await db.get_run_by_id.get({ id: runId })) ?? {};
    const key = `${alias} ${path}`;
    let writing: Promise<unknown> = Promise.resolve();
    let stopped = false;
    const append = (channel: number) => (chunk: unknown) => {
      writing = writing.then(() => stopped || entries.appendStream(runId, path, channel, String(chunk))).catch(() => {});
    };
    const code = await new Promise<number | string>((resolve) => {
      const child = spawn("bash", ["-lc", command], { cwd });
      this.#stop.set(key, () => {
        stopped = true;
        child.kill("SIGKILL");
      });
      child.stdout!.on("data", append(1));
      child.stderr!.on("data", append(2));
      child.on("error", (error: Error) => resolve(error.message));
      child.on("close", (exit: number | null, signal: string | null) => resolve(exit ?? signal ?? 1));
    });
    this.#stop.delete(key);
    await writing;
    // The code that stopped the command has already ended its channels.
    if (!stopped) await entries.endStream(runId, path, typeof code === "number" ? { exitCode: code } : { aborted: code });
  }
}

export class Sh extends Command {
  constructor(core: Core) {
    super(core, "Runs a command that changes something, when the user accepts it");
  }
}

export class Env extends Command {
  constructor(core: Core) {
    super(core, "Runs a command that only looks, when the user accepts it");
  }
}

export class AskUser {
  constructor(core: Core) {
    tool(core, ["## ask_user", '<ask_user question="Which?" options="a; b"/>', "* Asks the user"], async (entry: Action, rummy: Rummy) => {
      const question = String(entry.attributes.question ?? entry.body ?? "").trim();
      if (question === "") return failed(rummy, entry, "validation", "ask_user: question is required");
      const text = String(entry.attributes.options ?? (entry.attributes.question ? entry.body : "") ?? "");
      const options = text.split(text.includes(";") ? ";" : ",").map((option) => option.trim()).filter((option) => option !== "");
      return finish(rummy, entry, question, { state: "proposed", attributes: { question, options } });
    });
    core.filter("proposal.content", async (content: string, { path, attrs }: any) =>
      loggedAction(path)?.action === "ask_user" ? `${attrs.question}\n${content}` : content);
  }
}

export class Think {
  constructor(core: Core) {
    tool(core, ["## think", "<think>words</think>", "* Thoughts that nobody but you reads"], async (entry: Action, rummy: Rummy) => finish(rummy, entry, entry.body));
    core.filter("llm.reasoning", async (reasoning: string, { commands }: any) =>
      [reasoning, ...commands.filter((command: any) => command.name === "think").map((command: any) => command.body)].filter(Boolean).join("\n"));
  }
}

const shownUpdate = (entry: any): string => `# update\n${entry.body}`;

export class Update {
  constructor(core: Core) {
    tool(core, ["## update", '<update status="200">done</update>', "* Ends each turn: 102 continues; 200, 204 and 422 end the run"], async (entry: Action, rummy: Rummy) => {
      const status = Number(entry.attributes.status ?? 102);
      await rummy.update(entry.body, { status, attributes: { status } });
      return finish(rummy, entry, entry.body, { attributes: { status } });
    });
    core.on("visible", shownUpdate);
    core.on("summarized", shownUpdate);
    core.hooks.update.resolve = async ({ recorded = [], rummy }: any) => {
      const updates = recorded.filter((entry: any) => entry.scheme === "update");
      const last = updates.at(-1);
      if (!last) return { summaryText: null, updateText: null };
      const status = Number(attributes(last).status ?? 102);
      const hasFailed = recorded.some((entry: any) => entry.state === "failed" && entry.scheme !== "update");
      if (!TERMINAL.has(status)) return { summaryText: null, updateText: last.body, status };
      if (status !== 200 || !hasFailed) return { summaryText: last.body, updateText: null, status };
      // A model cannot be done if an action failed. Its signal becomes a conflict, which the next turn shows.
      const place = { runId: rummy?.runId, path: last.resultPath };
      if (rummy && last.resultPath) await rummy.entries.set({ ...place, state: "failed", outcome: "conflict:409" });
      return { summaryText: null, updateText: last.body, status: 409 };
    };
  }
}
