/**
 * `pi:pi/projection`: converts the entries of a session to the messages that the model sees.
 *
 * The newest compaction comes first, then the entries that it kept, with edits applied. The host computes the same for a
 * request; this module serves extensions.
 */

export interface Entry {
  type: string;
  id: string;
  timestamp: string;
  [member: string]: any;
}

export interface Projection {
  entries: { sourceEntry: any; messages: any[] }[];
  messages: any[];
  thinkingLevel: string;
  model: { provider: string; modelId: string } | null;
}

/** Whether an entry changes the model's prompt or tools. */
const tellsSystem = (entry: Entry): boolean => entry.type === "message" && entry.message?.role === "system";

/**
 * Returns the entries of a branch that the model sees. A compaction itself contains the prompt and tools that were kept.
 */
export function contextEntries<T extends Entry>(branch: T[]): T[] {
  const at = branch.findLastIndex((entry) => entry.type === "compaction");
  const compaction = branch[at];
  if (!compaction) return branch;
  const kept = branch.slice(0, at).findIndex((entry) => entry.id === compaction.firstKeptEntryId);
  const before = kept === -1 ? [] : branch.slice(kept, at).filter((entry) => !tellsSystem(entry));
  return [compaction, ...before, ...branch.slice(at + 1)];
}

/** Converts one entry to messages. */
export function messagesOf(entry: Entry): any[] {
  const timestamp = Date.parse(entry.timestamp);
  switch (entry.type) {
    case "message":
      return [entry.message];
    case "custom_message": {
      const { customType, content, display, details } = entry;
      return [{ role: "custom", customType, content, display, details, timestamp }];
    }
    case "branch_summary":
      return [{ role: "branchSummary", summary: entry.summary, fromId: entry.fromId, timestamp }];
    case "compaction": {
      const summary = { role: "compactionSummary", summary: entry.summary, tokensBefore: entry.tokensBefore, timestamp };
      return entry.systemMessage ? [entry.systemMessage, summary] : [summary];
    }
    default:
      return [];
  }
}

/** Converts a branch to the complete view. */
export function project(branch: Entry[]): Projection {
  const visible = contextEntries(branch);
  const edits = new Map<string, any>();
  for (const entry of visible) if (entry.type === "context_edit") edits.set(entry.targetId, entry.replacement);
  const projected = visible.map((sourceEntry, index) => {
    const stale = sourceEntry.type === "compaction" && index > 0;
    const edit = edits.get(sourceEntry.id);
    let messages = stale || edit === null ? [] : messagesOf(sourceEntry);
    if (edit) messages = messages.map((message) => (tellsSystem(sourceEntry) ? message : { ...message, content: edit.content }));
    return { sourceEntry, messages };
  });
  const level = branch.findLast((entry) => entry.type === "thinking_level_change");
  const model = branch.findLast(
    (entry) => entry.type === "model_change" || (entry.type === "message" && entry.message?.role === "assistant"),
  );
  return {
    entries: projected,
    messages: projected.flatMap(({ messages }) => messages),
    thinkingLevel: level?.thinkingLevel ?? "off",
    model: modelOf(model),
  };
}

function modelOf(entry: Entry | undefined): { provider: string; modelId: string } | null {
  if (!entry) return null;
  return entry.type === "model_change"
    ? { provider: entry.provider, modelId: entry.modelId }
    : { provider: entry.message.provider, modelId: entry.message.model };
}
