/**
 * The vocabulary of one generation of rummy: names of hooks and views, and the hooks that a plugin may subscribe to.
 *
 * `2.x` follows the documents of 2.0 to 2.3. `0.5` has the names that the bundled plugins of that release register for.
 */

export interface Profile {
  readonly name: string;
  /** Dotted names of the hooks that are emitted. */
  readonly events: readonly string[];
  /** Dotted names of the filters, which pass a value through. */
  readonly filters: readonly string[];
  /** Dotted names of the objects that plugins assign functions to. */
  readonly namespaces: readonly string[];
  /** Names of the views; the first is the default of an entry. */
  readonly views: readonly [string, string];
  /** Member of an entry that names its view. */
  readonly viewMember: string;
  /** Attribute that replaces an unregistered second view; undefined for an empty text. */
  readonly viewFallback: string | undefined;
  /** Whether rendering a scheme without views is an error. */
  readonly missingViewThrows: boolean;
  /** Schemes that exist before any plugin is loaded. */
  readonly bootstrap: readonly Scheme[];
}

/** A scheme, in the form that the store keeps. */
export interface Scheme {
  name: string;
  model_visible: number;
  category: string;
  default_scope: string;
  writable_by: readonly string[];
}

const scheme = (name: string, category: string, writable_by: string[], model_visible = 1): Scheme => ({
  name, model_visible, category, default_scope: "run", writable_by,
});

const AUDIT = ["instructions", "system", "reasoning", "model", "user", "assistant", "content"];

const COMMON_EVENTS = [
  "project.init.started", "project.init.completed", "project.files.update.started", "project.files.update.completed",
  "run.created", "run.started", "run.progress", "run.state", "run.step.completed", "loop.started", "loop.completed",
  "turn.started", "turn.response", "turn.completed", "ask.started", "ask.completed", "act.started", "act.completed",
  "llm.request.started", "llm.request.completed", "entry.created", "entry.changed", "tool.before", "tool.after",
  "context.materialized", "ui.render", "ui.notify", "rpc.started", "rpc.completed", "rpc.error",
];

const COMMON_FILTERS = [
  "run.config", "assembly.system", "assembly.user", "instructions.toolDocs", "llm.messages", "llm.response", "prompt.tools",
  "entry.recording", "socket.message.raw", "rpc.request", "rpc.response.result",
];

const PROFILES: Record<string, Profile> = {
  "2.x": {
    name: "2.x",
    events: [
      ...COMMON_EVENTS, "proposal.prepare", "proposal.pending", "proposal.accepted", "proposal.rejected", "turn.dispatched",
      "error.log", "stream.cancelled", "boot.completed", "run.wake",
    ],
    filters: [
      ...COMMON_FILTERS, "proposal.accepting", "proposal.content", "turn.beforeDispatch", "turn.verdict", "llm.reasoning",
    ],
    namespaces: ["file", "action", "agent", "hedberg", "budget", "update"],
    views: ["visible", "summarized"],
    viewMember: "visibility",
    viewFallback: "tags",
    missingViewThrows: false,
    bootstrap: [
      ...AUDIT.map((name) => scheme(name, "audit", ["system"], 0)),
      scheme("prompt", "prompt", ["plugin"]),
      scheme("log", "logging", ["system", "plugin", "model"]),
      scheme("run", "logging", ["system", "plugin", "client"], 0),
    ],
  },
  "0.5": {
    name: "0.5",
    events: [...COMMON_EVENTS, "turn.proposal", "turn.proposing"],
    filters: COMMON_FILTERS,
    namespaces: ["file", "action", "agent"],
    views: ["promoted", "demoted"],
    viewMember: "fidelity",
    viewFallback: undefined,
    missingViewThrows: true,
    bootstrap: [
      ...[...AUDIT, "error"].map((name) => scheme(name, "audit", ["system", "plugin"], 0)),
      scheme("prompt", "prompt", ["system", "plugin"]),
      scheme("progress", "prompt", ["system", "plugin"]),
    ],
  },
};

/** Returns the profile with a name. */
export function profileOf(name: string): Profile {
  const found = Object.hasOwn(PROFILES, name) ? PROFILES[name] : undefined;
  if (!found) throw new Error(`there is no rummy profile "${name}"; there are ${Object.keys(PROFILES).join(", ")}`);
  return found;
}
