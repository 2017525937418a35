/**
 * `pi:pi/session`: `ctx.sessionManager`.
 *
 * Reads use the readable state without a hostcall. For a long session, the state has only the entries that the model sees,
 * and `session.absent` counts the others, which are fetched on demand, one by its id or all at once. Entries are this
 * realm's copies, so changing one does not affect the session. A write is a hostcall, complete when it returns.
 */

import { state } from "pi:engine";
import { callSync } from "pi:hostcall";
import { jsonOf } from "pi:pi/plain";
import * as projection from "pi:pi/projection";
import { renewed } from "pi:pi/stale";

export interface SessionEntry {
  type: string;
  id: string;
  parentId: string | null;
  timestamp: string;
  [member: string]: any;
}

export interface TreeNode {
  entry: SessionEntry;
  children: TreeNode[];
  label: string | undefined;
  labelTimestamp: string | undefined;
}

/** Returns the `session` member of the readable state: `{cwd, dir, id, file, header, leafId}`. */
function session(): Record<string, any> {
  return state().set.session ?? {};
}

/** Returns the entries in the readable state. */
function shown(): SessionEntry[] {
  return state().entries;
}

/** All entries of the session `id`, if they were fetched. */
let all: { id: string; entries: SessionEntry[] } = { id: "", entries: [] };

/** Returns all entries in file order. */
function entries(): SessionEntry[] {
  const { absent, count, id } = session();
  if (!absent) return shown();
  if (all.id !== id || all.entries.length > count) all = { id, entries: [] };
  while (all.entries.length < count) {
    const page = callSync("session", "session", { op: "read_entries", from: all.entries.length }).output.entries;
    if (page.length === 0) break;
    all.entries.push(...page);
  }
  return all.entries;
}

function entryById(id: string): SessionEntry | undefined {
  const here = shown().find((entry) => entry.id === id);
  if (here || !session().absent) return here;
  return callSync("session", "session", { op: "read_entry", entryId: String(id) }).output.entry ?? undefined;
}

function leafId(): string | null {
  const known = session().leafId;
  if (known !== undefined) return known;
  return shown().at(-1)?.id ?? null;
}

/** Returns the path from the root to an entry, as far as these entries contain it. */
function branchAmong(entries: SessionEntry[], from: string | null | undefined): SessionEntry[] {
  const byId = new Map(entries.map((entry) => [entry.id, entry]));
  const branch: SessionEntry[] = [];
  let id = from;
  while (id !== null && id !== undefined) {
    const entry = byId.get(id);
    // A manually edited session file may contain a cycle.
    if (!entry || branch.length > byId.size) break;
    branch.push(entry);
    id = entry.parentId;
  }
  return branch.reverse();
}

/** Returns the branch for the model's view, which is in the state unless the conversation is too long. */
function contextBranch(): SessionEntry[] {
  const { absent, partial } = session();
  return branchAmong(absent && partial ? entries() : shown(), leafId());
}

/** Returns the latest label of an entry and its time. */
function labelOf(id: string): { label: string; timestamp: string } | undefined {
  let found: { label: string; timestamp: string } | undefined;
  for (const entry of entries()) {
    if (entry.type !== "label" || entry.targetId !== id) continue;
    found = entry.label === undefined || entry.label === null || entry.label === ""
      ? undefined
      : { label: entry.label, timestamp: entry.timestamp };
  }
  return found;
}

/** Returns the model's view. In a long session, the thinking level and the model may come from the state. */
function projected(): projection.Projection {
  const found = projection.project(contextBranch());
  if (!session().absent) return found;
  const { thinkingLevel, model } = state().set;
  return {
    ...found,
    thinkingLevel: thinkingLevel ?? found.thinkingLevel,
    model: found.model ?? (model ? { provider: model.provider, modelId: model.id } : null),
  };
}

/**
 * Returns the capability for appending an entry: imitating messages of others, the prompt or the model needs more than sending a
 * message.
 */
function neededFor(entry: any): string {
  if (entry.type === "compaction" || entry.type === "branch_summary") return "compaction";
  if (entry.type === "context_edit") return "context.modify";
  if (entry.type === "model_change" || entry.type === "thinking_level_change") return "session.control";
  return entry.type === "message" && entry.message?.role === "system" ? "prompt.modify" : "session.inject";
}

/** Appends an entry below the leaf and returns its id. */
function append(entry: Record<string, unknown>): string {
  const plain = jsonOf(entry);
  return callSync("session", neededFor(plain), { op: "append", entry: plain }).output.id;
}

function setLeaf(entryId: string | null): void {
  callSync("session", "session.control", { op: "set_leaf", ...(entryId === null ? {} : { entryId }) });
}

export const sessionManager = {
  getCwd: (): string => session().cwd ?? state().set.cwd,
  getSessionDir: (): string => session().dir ?? "",
  getSessionId: (): string => session().id ?? "",
  getSessionFile: (): string | undefined => session().file ?? undefined,
  getHeader: (): object | null => session().header ?? null,
  getLeafId: leafId,

  getLeafEntry(): SessionEntry | undefined {
    const id = leafId();
    return id === null ? undefined : entryById(id);
  },

  getEntry: entryById,

  /** Returns all entries in file order, as a new list. */
  getEntries: (): SessionEntry[] => entries().slice(),

  getLabel: (id: string): string | undefined => labelOf(id)?.label,

  /** Returns the path from the root to an entry, by default the leaf. */
  getBranch(fromId?: string): SessionEntry[] {
    return branchAmong(entries(), fromId ?? leafId());
  },

  getTree(): TreeNode[] {
    const nodes = new Map<string, TreeNode>();
    for (const entry of entries()) {
      const { label, timestamp: labelTimestamp } = labelOf(entry.id) ?? {};
      nodes.set(entry.id, { entry, children: [], label, labelTimestamp });
    }
    const roots: TreeNode[] = [];
    for (const node of nodes.values()) {
      const parent = node.entry.parentId === null ? undefined : nodes.get(node.entry.parentId);
      if (parent && parent !== node) parent.children.push(node);
      else roots.push(node);
    }
    const time = (node: TreeNode) => Date.parse(node.entry.timestamp);
    for (const node of nodes.values()) node.children.sort((a, b) => time(a) - time(b));
    return roots;
  },

  getSessionName(): string | undefined {
    if (session().absent) return session().name ?? undefined;
    const named = shown().findLast((entry) => entry.type === "session_info");
    const name = named?.name?.trim();
    return name ? name : undefined;
  },

  isPersisted: (): boolean => session().persisted ?? false,
  usesDefaultSessionDir: (): boolean => session().defaultDir ?? session().persisted ?? false,
  getChildren: (parentId: string): SessionEntry[] => entries().filter((entry) => entry.parentId === parentId),

  buildContextEntries: (): SessionEntry[] => projection.contextEntries(contextBranch()),
  buildSessionProjection: projected,
  buildSessionContext(): object {
    const { messages, thinkingLevel, model } = projected();
    return { messages, thinkingLevel, model };
  },

  appendMessage: (message: any): string =>
    message?.role === "custom"
      ? sessionManager.appendCustomMessageEntry(message.customType, message.content, message.display, message.details)
      : append({ type: "message", message }),
  appendThinkingLevelChange: (thinkingLevel: string): string => append({ type: "thinking_level_change", thinkingLevel }),
  appendModelChange: (provider: string, modelId: string): string => append({ type: "model_change", provider, modelId }),
  appendUsage(kind: string, provider: string, model: string, usage: object, note?: string): SessionEntry | undefined {
    return entryById(append({ type: "usage", kind, provider, model, usage, note }));
  },
  appendCompaction: (
    summary: string,
    firstKeptEntryId: string | null,
    tokensBefore: number,
    details?: unknown,
    fromHook?: boolean,
    usage?: object,
  ): string =>
    append({ type: "compaction", summary, firstKeptEntryId: firstKeptEntryId ?? "", tokensBefore, details, usage, fromHook }),
  appendCustomEntry: (customType: string, data?: unknown): string => append({ type: "custom", customType, data }),
  appendCustomMessageEntry: (customType: string, content: unknown, display: boolean, details?: unknown): string =>
    append({ type: "custom_message", customType, content, display, details }),
  appendSessionInfo: (name: string): string => append({ type: "session_info", name: String(name).trim() }),
  appendContextEdit(targetId: string, replacement: object | null): string {
    if (!entryById(targetId)) throw new Error(`Entry ${targetId} not found`);
    return append({ type: "context_edit", targetId, replacement });
  },
  appendLabelChange(targetId: string, label: string | undefined): string {
    if (!entryById(targetId)) throw new Error(`Entry ${targetId} not found`);
    return append({ type: "label", targetId, label });
  },

  /** Sets the parent of the next entry. */
  branch(fromId: string): void {
    if (!entryById(fromId)) throw new Error(`Entry ${fromId} not found`);
    setLeaf(fromId);
  },
  resetLeaf: (): void => setLeaf(null),
  branchWithSummary(fromId: string | null, summary: string, details?: unknown, fromHook?: boolean, usage?: object): string {
    if (fromId !== null && !entryById(fromId)) throw new Error(`Entry ${fromId} not found`);
    const left = leafId() ?? "root";
    setLeaf(fromId);
    return append({ type: "branch_summary", fromId: left, summary, details, usage, fromHook });
  },

  // The session's owner replaces the whole session, with events, so these members throw.
  newSession: (): never => replaces("newSession", "ctx.newSession()"),
  setSessionFile: (): never => replaces("setSessionFile", "ctx.switchSession(path)"),
  createBranchedSession: (): never => replaces("createBranchedSession", 'ctx.fork(entryId, { position: "at" })'),
};

/** `ctx.sessionManager` of the session. */
export const managerOfSession = renewed(sessionManager);

function replaces(member: string, instead: string): never {
  throw new Error(`ctx.sessionManager.${member} would replace the session behind its owner's back; use ${instead}`);
}
