/**
 * `pi:pi/session`: `ctx.sessionManager`, the read side of the session.
 *
 * Everything is answered from the readable state; nothing asks the host. Entries are this realm's
 * copies: changing one changes nothing in the session.
 */

import { state } from "pi:engine";
import { defineUnsupported } from "pi:pi/unsupported";

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
  label?: string;
  labelTimestamp?: string;
}

/** The `session` member of the readable state: `{cwd, dir, id, file, header, leafId}`. */
function session(): Record<string, any> {
  return state().set.session ?? {};
}

function entries(): SessionEntry[] {
  return state().entries;
}

function entryById(id: string): SessionEntry | undefined {
  return entries().find((entry) => entry.id === id);
}

function leafId(): string | null {
  const known = session().leafId;
  if (known !== undefined) return known;
  return entries().at(-1)?.id ?? null;
}

/** The last label given to an entry, and when. */
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

  /** All entries in file order; a new list. */
  getEntries: (): SessionEntry[] => entries().slice(),

  getLabel: (id: string): string | undefined => labelOf(id)?.label,

  /** From the root to an entry, the leaf unless told otherwise. */
  getBranch(fromId?: string): SessionEntry[] {
    const byId = new Map(entries().map((entry) => [entry.id, entry]));
    const branch: SessionEntry[] = [];
    let id = fromId ?? leafId();
    while (id !== null && id !== undefined) {
      const entry = byId.get(id);
      // A file that was edited by hand may lead in a circle.
      if (!entry || branch.length > byId.size) break;
      branch.push(entry);
      id = entry.parentId;
    }
    return branch.reverse();
  },

  getTree(): TreeNode[] {
    const nodes = new Map<string, TreeNode>();
    for (const entry of entries()) {
      const node: TreeNode = { entry, children: [] };
      const label = labelOf(entry.id);
      if (label) {
        node.label = label.label;
        node.labelTimestamp = label.timestamp;
      }
      nodes.set(entry.id, node);
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
    const named = entries().findLast((entry) => entry.type === "session_info");
    const name = named?.name?.trim();
    return name ? name : undefined;
  },
};

defineUnsupported(sessionManager, "ctx.sessionManager", [
  "appendBranchSummary",
  "appendCompaction",
  "appendCustomEntry",
  "appendCustomMessageEntry",
  "appendLabelChange",
  "appendMessage",
  "appendModelChange",
  "appendSessionInfo",
  "appendThinkingLevelChange",
  "branch",
  "branchWithSummary",
  "buildContextEntries",
  "buildSessionContext",
  "buildSessionProjection",
  "createBranchedSession",
  "getChildren",
  "isPersisted",
  "newSession",
  "resetLeaf",
  "setSessionFile",
]);
