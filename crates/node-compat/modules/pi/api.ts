/**
 * `pi:pi/api`: the `pi` object, one per entry.
 *
 * Registrations go to the host as data; functions stay here under a handle. Actions are hostcalls and
 * throw pi's message while the factory runs.
 */

import { facts, importSync, state } from "pi:engine";
import { call, callSync, HostcallError } from "pi:hostcall";
import type { Params } from "pi:hostcall";
import { checkString, coded, invalidArgType } from "pi:node/errors";
import { deafen, emit, listen } from "pi:pi/bus";
import * as connectors from "pi:pi/connectors";
import type { Entry } from "pi:pi/entry";
import { sendError } from "pi:pi/errors";
import { describeArgument, functionCheck, issueHandle } from "pi:pi/handles";
import { registeredServers, registerServer, withdrawServer } from "pi:pi/mcp-servers";
import { beginHandlers, noteHandler } from "pi:pi/own-handlers";
import { jsonOf } from "pi:pi/plain";
import { busCanBeCleared, checksRegistrations, handlersCanBeRemoved, ofThisPi } from "pi:pi/profile";
import { forget, offerProvider } from "pi:pi/providers";
import { asRenderer, asToolFunction } from "pi:pi/renderers";
import { managerOfSession, sessionManager } from "pi:pi/session";
import { addStreamHandler, removeStreamHandler } from "pi:pi/stream";
import { activeTools, allTools, chooseTools, noteTool, sourceOf, type ToolInfo } from "pi:pi/tools";
import { uiOfSession } from "pi:pi/ui";
import type { AbortSignal } from "pi:web/abort";

type Callable = (...args: any[]) => any;

/** Members of a tool that are sent as data: pi's name, and the name on the wire. */
const TOOL_DATA: readonly (readonly [string, string])[] = [
  ["label", "label"],
  ["description", "description"],
  ["parameters", "parameters"],
  ["promptSnippet", "prompt_snippet"],
  ["promptGuidelines", "prompt_guidelines"],
  ["executionMode", "execution_mode"],
  ["renderShell", "render_shell"],
];

/** Creates the object that an entry's factory receives. */
export function createApi(entry: Entry, ctx: object): object {
  const api = {
    on(event: string, handler: Callable, options?: { sources?: unknown }): (() => void) | undefined {
      entry.assertUsable();
      const name = String(event);
      let handle: number;
      const wrong = () => lacking("handler", `pi.on("${name}", ...)`, handler, `pi.on("${name}", (event, ctx) => { ... })`);
      const handleEvent: Callable =
        typeof handler === "function" ? (payload, context) => handler(payload, context) : functionCheck(() => handler, wrong);
      const spec: Record<string, unknown> = { kind: "handler", event: name };
      if (name === "stream_text") {
        const added = addStreamHandler(entry.index, handleEvent, ctx, options?.sources);
        handle = added.handle;
        spec.sources = added.sources;
        entry.onFailure(() => removeStreamHandler(handle));
      } else {
        // The handler is looked up when it is called, as in pi: registering a missing one is not an error.
        handle = issueHandle(handleEvent);
      }
      spec.handle = handle;
      entry.register(spec as { kind: string });
      const forgetOwn = noteHandler(name, entry, ctx, handleEvent);
      entry.onFailure(forgetOwn);
      if (!handlersCanBeRemoved) return undefined;
      let listens = true;
      return () => {
        if (!listens) return;
        listens = false;
        forgetOwn();
        if (name === "stream_text") removeStreamHandler(handle);
        entry.register({ kind: "handler_removed", handle });
      };
    },

    registerTool(tool: Record<string, any>): void {
      entry.assertUsable();
      const spec = toolSpec(tool, entry.path);
      entry.register(spec);
      if (entry.state === "active") noteTool(toolInfo(spec, entry.path));
    },

    registerCommand(name: string, options: Record<string, any>): void {
      entry.assertUsable();
      const call = `pi.registerCommand("${String(name)}", `;
      const check = functionCheck(
        () => options?.handler,
        () => lacking("command.handler", `${call}...)`, options, `${call}{ handler: async (args, ctx) => { ... } })`, "handler"),
      );
      const spec: Record<string, unknown> = {
        kind: "command",
        name: String(name),
        handle: issueHandle((args: string, context: object) => {
          check();
          return options.handler(args, context);
        }),
      };
      if (typeof options?.description === "string") spec.description = options.description;
      if (typeof options?.getArgumentCompletions === "function") {
        spec.completions = issueHandle((prefix: string) => options.getArgumentCompletions(prefix));
      }
      entry.register(spec as { kind: string });
    },

    registerFlag(name: string, options: { type: string; default?: boolean | string; description?: string }): void {
      entry.assertUsable();
      if (options === undefined || options === null) {
        const call = `pi.registerFlag("${String(name)}", `;
        const lost = `Cannot read properties of ${options} (reading 'default')`;
        throw new TypeError(`${lost}: ${call}...) got ${describeArgument(options)} as its second argument; write ${call}{ type: "boolean", description: "..." })`);
      }
      const value = options.default;
      if (checksRegistrations && value !== undefined && typeof value !== options.type) {
        throw new Error(`Invalid default for flag "${name}": expected ${options.type}, got ${typeof value}`);
      }
      // The first default is kept, even if the flag is registered again.
      entry.flags.set(name, entry.flags.get(name) ?? value);
      const spec: Record<string, unknown> = { kind: "flag", name: String(name), type: String(options.type) };
      if (value !== undefined) spec.default = value;
      if (typeof options.description === "string") spec.description = options.description;
      entry.register(spec as { kind: string });
    },

    /** Returns the value of a flag; undefined unless this entry registered the flag. */
    getFlag(name: string): boolean | string | undefined {
      entry.assertUsable();
      if (!entry.flags.has(name)) return undefined;
      // The values from the command line are known once all extensions are loaded.
      const values = entry.state === "loading" ? undefined : state().set.flags;
      return values && Object.hasOwn(values, name) ? values[name] : entry.flags.get(name);
    },

    registerShortcut(key: string, options: { description?: string; handler: Callable }): void {
      entry.assertUsable();
      const call = `pi.registerShortcut("${String(key)}", `;
      const check = functionCheck(
        () => options?.handler,
        () => lacking("shortcut.handler", `${call}...)`, options, `${call}{ handler: async (ctx) => { ... } })`, "handler"),
      );
      const spec: Record<string, unknown> = {
        kind: "shortcut",
        key: String(key),
        handle: issueHandle(() => {
          check();
          return options.handler(ctx);
        }),
      };
      if (typeof options?.description === "string") spec.description = options.description;
      entry.register(spec as { kind: string });
    },

    registerMessageRenderer(customType: string, renderer: Callable): void {
      entry.assertUsable();
      const handle = issueHandle(asRenderer(checkedRenderer("registerMessageRenderer", customType, renderer)));
      entry.register({ kind: "message_renderer", custom_type: String(customType), handle });
    },

    registerEntryRenderer(customType: string, renderer: Callable): void {
      entry.assertUsable();
      const handle = issueHandle(asRenderer(checkedRenderer("registerEntryRenderer", customType, renderer)));
      entry.register({ kind: "entry_renderer", custom_type: String(customType), handle });
    },

    /** Registers a function that transforms Markdown before a terminal shows it. The last registration of an entry applies. */
    registerMarkdownTransformer(transformer: Callable): void {
      entry.assertUsable();
      const call = "pi.registerMarkdownTransformer(";
      const wrong = () => lacking("transformer", `${call}...)`, transformer, `${call}(markdown) => markdown)`, undefined, "first");
      const callable = typeof transformer === "function" ? transformer : functionCheck(() => transformer, wrong);
      entry.register({ kind: "markdown_transformer", handle: issueHandle(callable) });
    },

    /**
     * Registers a model provider: by name and configuration, or as an object with `id`, `models` and functions, which stay here.
     */
    registerProvider(name: string | Record<string, any>, config?: Record<string, any>): void {
      entry.assertUsable();
      if (typeof name === "string" && !config) throw new Error("Provider config is required when registering by name");
      offerProvider(name, config ?? {}, (spec) => entry.register(spec), entry.state === "loading");
      refreshProviders(entry, typeof name === "string" ? name : String(name?.id));
    },

    unregisterProvider(name: string): void {
      entry.assertUsable();
      forget(String(name));
      entry.register({ kind: "provider_removed", name: String(name) });
      refreshProviders(entry);
    },

    /** Adds an MCP server for this session, configured like an entry of `mcp.json`. */
    registerMcpServer(name: string, config: object): void {
      entry.assertUsable();
      registerServer(entry, String(name), config);
    },

    /** Removes a server that this entry registered. */
    unregisterMcpServer(name: string): void {
      entry.assertUsable();
      withdrawServer(entry, String(name));
    },

    /** Returns every MCP server that extensions registered. */
    getMcpServers(): object[] {
      entry.assertUsable();
      return registeredServers();
    },

    /** Runs a program. A program that cannot run results in code 1, with the reason on stderr. */
    async exec(command: string, args: string[] = [], options: { signal?: AbortSignal; timeout?: number; cwd?: string } = {}) {
      entry.assertUsable();
      checkString("file", command);
      if (command === "") throw coded(TypeError, "ERR_INVALID_ARG_VALUE", "The argument 'file' cannot be empty. Received ''");
      args ??= [];
      if (typeof args === "string") throw invalidArgType("args", "of type object", args);
      const { signal, timeout, cwd } = options;
      const params: Record<string, unknown> = jsonOf({ command, args: [...args].map(String), cwd: cwd ?? facts.cwd, api: "pi.exec" });
      if (timeout !== undefined && timeout > 0) params.timeout = timeout;
      // Notifies a recording driver at once, in the order of the calls.
      if (facts.observesEvents === true) callSync("log", "log", { level: "debug", event: "pi.exec", message: command, data: params });
      const env = importSync("pi:node/environment").inherited();
      if (env !== undefined) Object.assign(params, { env, inherits: true });
      try {
        const { output } = await call("exec", "exec", params as Params<"exec">, { signal });
        return { stdout: output.stdout ?? "", stderr: output.stderr ?? "", code: output.code ?? 0, killed: output.killed ?? false };
      } catch (error) {
        if (signal?.aborted) return { stdout: "", stderr: "", code: 0, killed: true };
        if (error instanceof HostcallError) return { stdout: "", stderr: error.message, code: 1, killed: false };
        throw error;
      }
    },

    sendMessage(message: Record<string, unknown>, options?: object): void {
      entry.assertReady();
      // Missing members are detected when the message is sent, which is a separate error in pi, too.
      inject("send_message", () => ({ message: messageOf(message), options: options ?? {} }), entry.index);
    },

    sendUserMessage(content: unknown, options?: object): void {
      entry.assertReady();
      inject("send_user_message", () => ({ content: contentOf(content), options: options ?? {} }), entry.index);
    },

    /** Appends data to the session; it is stored when the call returns. */
    appendEntry(customType: string, data?: unknown): void {
      entry.assertReady();
      callSync("session", "session", { op: "append_entry", customType: typeOf(customType), ...(data === undefined ? {} : { data }) });
    },

    /** Returns every tool, active or not. */
    getAllTools(): object[] {
      entry.assertReady();
      return allTools().map(({ name, description, parameters, promptGuidelines, sourceInfo }) => ({
        ...(jsonOf({ name, description, parameters }) as object),
        promptGuidelines: jsonOf(promptGuidelines),
        sourceInfo: jsonOf(sourceInfo),
      }));
    },

    /** Returns names of the tools that the model may call. */
    getActiveTools(): string[] {
      entry.assertReady();
      return activeTools();
    },

    /** Selects the tools of the next turn. Unknown names are ignored. */
    setActiveTools(toolNames: string[]): void {
      entry.assertReady();
      chooseTools(Array.from(each(toolNames, "toolNames"), String));
    },

    getSessionName(): string | undefined {
      entry.assertReady();
      return sessionManager.getSessionName();
    },

    setSessionName(name: string): void {
      entry.assertReady();
      // Calls the value's own `replace`: a value other than a string fails here, with the engine's or pi's message.
      if (typeof name.replace !== "function") throw new TypeError("name.replace is not a function");
      const text = String(name.replace(/[\r\n]+/g, " ")).toWellFormed();
      beginHandlers(callSync("session", "session", { op: "set_session_name", name: text }).output);
    },

    /** Sets the label of an entry; without a label, removes it. */
    setLabel(entryId: string, label?: string): void {
      entry.assertReady();
      if (!sessionManager.getEntry(entryId)) throw new Error(`Entry ${entryId} not found`);
      callSync("session", "session", { op: "set_label", entryId, ...(label === undefined ? {} : { label: String(label).toWellFormed() }) });
    },

    /** Returns the slash commands: first those of extensions, then prompt templates, then skills. */
    getCommands(): object[] {
      entry.assertReady();
      return (state().set.commands ?? []).map(({ name, ...others }: any) => ({ name, description: undefined, ...(jsonOf(others) as object) }));
    },

    /** Switches to another model. Returns false if its provider has no key. */
    async setModel(model: { provider?: unknown }): Promise<boolean> {
      if (entry.state === "loading") throw new Error("Extension runtime not initialized");
      entry.assertReady();
      // An unknown provider has no key.
      if (typeof model.provider !== "string") return false;
      const { output } = await call("session", "session.control", { op: "set_model", model: jsonOf(model) });
      return output.ok === true;
    },

    getThinkingLevel(): string {
      entry.assertReady();
      return state().set.thinkingLevel ?? "off";
    },

    /** Sets the thinking level, or the nearest one that the model supports. */
    setThinkingLevel(level: string): void {
      entry.assertReady();
      beginHandlers(callSync("session", "session.control", { op: "set_thinking_level", level: String(level) }).output);
    },

    events: {
      emit(channel: string, data?: unknown): void {
        entry.assertUsable();
        emit(channel, data, entry.index);
      },
      on(channel: string, listener: Callable): () => void {
        entry.assertUsable();
        const call = `pi.events.on("${String(channel)}", `;
        const wrong = () => lacking("handler", `${call}...)`, listener, `${call}(data) => { ... })`);
        const stop = listen(channel, typeof listener === "function" ? listener : functionCheck(() => listener, wrong));
        entry.onFailure(stop);
        return stop;
      },
      ...(busCanBeCleared ? { clear: deafen } : {}),
    },

    // The connector surface: docs/spec/hostcalls.md.
    tool: connectors.tool,
    http: connectors.http,
    fs: connectors.fs,
    env: connectors.env,
    log: connectors.log,
    session: managerOfSession(),
    ui: uiOfSession(),
  };
  // An alias of the connector surface.
  return Object.assign(ofThisPi("pi", api), { registerSlashCommand: api.registerCommand });
}

/**
 * Makes the session refresh registered providers, and one provider list its models. After the factory, it does so in any case.
 */
function refreshProviders(entry: Entry, look?: string): void {
  if (entry.state === "loading") return;
  call("session", "session", { op: "refresh_providers", ...(look !== undefined && { look: [look] }) }).then(undefined, () => {});
}

/** Adds a message to the conversation. A failure is an error of the extension, as in pi. */
function inject(op: string, params: () => object, entry: number): void {
  try {
    // Synchronous, as in pi: ending a run and then sending a message starts the next run.
    callSync("session", "session.inject", { op, ...jsonOf(params()) });
  } catch (error) {
    sendError(error, op, entry);
  }
}

/** Returns the optional custom type of a message or an entry. */
function typeOf(customType: unknown): string {
  // Returned unchanged: an extension may have replaced `toWellFormed`.
  if (typeof customType === "string") return customType;
  return customType === undefined || customType === null ? "" : String(customType).toWellFormed();
}

function messageOf(message: Record<string, unknown>): object {
  const customType = typeOf(message.customType);
  const { display } = message;
  return { ...message, customType, content: message.content ?? [], ...(display !== undefined && { display: Boolean(display) }) };
}

/** Returns a message's text or parts. */
function contentOf(content: any): unknown {
  if (typeof content === "string") return content;
  const parts = each(content, "content");
  return Array.isArray(parts) ? parts : Array.from(parts);
}

/** Returns the iterable. Throws an error that contains `name` for any other value. */
function each<T>(list: Iterable<T>, name: string): Iterable<T> {
  if (typeof (list as any)?.[Symbol.iterator] !== "function") throw new TypeError(`${name} is not iterable`);
  return list;
}

function toolInfo(spec: Record<string, any>, path: string): ToolInfo {
  const { name, description, parameters, prompt_guidelines: promptGuidelines } = spec;
  return { name, description, parameters, promptGuidelines, sourceInfo: sourceOf(path) };
}

/** Returns the error of a function that is missing when pi calls it: pi's own text, the registration and a correct one. */
function lacking(name: string, call: string, given: unknown, example: string, member?: string, at = "second"): string {
  return `${name} is not a function: ${call} got ${describeArgument(given, member)} as its ${at} argument; write ${example}`;
}

function checkedRenderer(method: string, customType: string, renderer: Callable): Callable {
  const call = `pi.${method}("${String(customType)}", `;
  const wrong = () => lacking("renderer", `${call}...)`, renderer, `${call}(value, options, theme) => component)`);
  return typeof renderer === "function" ? renderer : functionCheck(() => renderer, wrong);
}

function toolSpec(tool: Record<string, any>, path: string): { kind: string } {
  const write = "write pi.registerTool({ name, label, description, parameters, execute })";
  if (tool === undefined || tool === null) {
    throw new TypeError(`Cannot read properties of ${tool} (reading 'parameters'): pi.registerTool(...) got ${describeArgument(tool)}; ${write}`);
  }
  const parameters = tool.parameters;
  if (checksRegistrations && (typeof parameters !== "object" || parameters === null || Array.isArray(parameters))) {
    const wrong = typeof tool === "object" ? "" : ` pi.registerTool(...) got ${describeArgument(tool)} as its first argument; ${write}`;
    throw new Error(`Tool "${tool.name}" registered by extension "${path}" must define an object parameter schema.${wrong}`);
  }
  const spec: Record<string, unknown> = { kind: "tool", name: String(tool.name) };
  const functions: { name: string; handle: number }[] = [];
  const known = new Set(["name", ...TOOL_DATA.map(([name]) => name)]);
  const others: string[] = [];
  for (const [name, wire] of TOOL_DATA) {
    if (tool[name] !== undefined && typeof tool[name] !== "function") spec[wire] = jsonOf(tool[name]);
  }
  for (const name of memberNames(tool)) {
    if (typeof tool[name] === "function") {
      // The method is looked up when it is called, with the tool as `this`: spread built-ins rely on that.
      functions.push({ name, handle: issueHandle(asToolFunction(name, (...args: unknown[]) => tool[name](...args))) });
    } else if (!known.has(name) && Object.hasOwn(tool, name)) {
      others.push(name);
    }
  }
  functions.sort((a, b) => (a.name < b.name ? -1 : 1));
  // typebox marks its schemas with a member that JSON drops.
  if (parameters?.["~kind"] !== undefined) spec.converts = true;
  // A tool without `execute` can be registered, and fails when it is called.
  if (!checksRegistrations) spec.parameters ??= {};
  const execute = functions.find(({ name }) => name === "execute")?.handle;
  spec.handle = execute ?? lateExecute(tool);
  spec.functions = functions;
  spec.other_keys = others.sort();
  return spec as { kind: string };
}

/** Returns the handle of a tool that has no `execute` yet. */
function lateExecute(tool: Record<string, any>): number {
  const call = `pi.registerTool({ name: "${String(tool.name)}", `;
  const example = `${call}async execute(toolCallId, params, signal, onUpdate, ctx) { ... } })`;
  const check = functionCheck(
    () => tool.execute,
    () => lacking("definition.execute", `${call}... })`, tool, example, "execute", "first"),
  );
  return issueHandle((...args: unknown[]) => {
    check();
    return tool.execute(...args);
  });
}

/** Returns the names of own enumerable members, and of the methods of a class instance. */
function memberNames(tool: object): string[] {
  const names = new Set(Object.keys(tool));
  for (let proto = Object.getPrototypeOf(tool); proto && proto !== Object.prototype; proto = Object.getPrototypeOf(proto)) {
    for (const name of Object.getOwnPropertyNames(proto)) if (name !== "constructor") names.add(name);
  }
  return [...names];
}
