/**
 * Types of what PiJS adds to the extension API of pi.
 *
 * Copy this file beside your extension, or name it under `include` in `tsconfig.json`. It augments
 * `@earendil-works/pi-coding-agent`. Code that imports the older name `@mariozechner/pi-coding-agent` needs that
 * name in the `import` and `declare module` lines below; at run time both names are the same module.
 */

import type { ExtensionContext } from "@earendil-works/pi-coding-agent";

declare module "@earendil-works/pi-coding-agent" {
  /** Kind of a streamed delta: text of the reply, reasoning, or arguments of a tool call. */
  type StreamSource = "text" | "thinking" | "tool";

  /** One delta of the model's reply, before the user, the session or another listener sees it. */
  interface StreamTextEvent {
    type: "stream_text";
    /** The delta. */
    chunk: string;
    /** All text of this source in the current attempt, the delta included. */
    accumulated: string;
    source: StreamSource;
    /** Tool whose arguments stream. Set when `source` is `"tool"`. */
    toolName?: string;
    /** Paths among the arguments, as far as they are complete. Set when `source` is `"tool"`. */
    filePaths?: string[];
  }

  /** Verdict on a delta. Without `abort: true` the reply continues. */
  interface StreamTextResult {
    /** Discards the attempt. */
    abort?: boolean;
    /** Injects a message and asks the model again. Without it an abort ends the run. */
    retry?: {
      /** Text of the message, at most 32 KB. */
      content: string;
      /** `"system"` without it. Without the capability `prompt.modify` the text names the extension. */
      role?: "system" | "user";
    };
  }

  /**
   * Judges a delta. The reply waits for the handler, so it must return at once: if it returns a promise that does not settle
   * within the turn, the reply continues.
   */
  type StreamTextHandler = (
    event: StreamTextEvent,
    ctx: ExtensionContext,
  ) => StreamTextResult | undefined | void | Promise<StreamTextResult | undefined | void>;

  /** A streamed rule that fired. */
  interface RuleFiredEvent {
    type: "rule_fired";
    rule: string;
    source: StreamSource;
    /** Line that matched. */
    excerpt: string;
    /** Position of the end of the match, from 1. */
    line: number;
    column: number;
    /** `"retry"` and `"stop"` discard the reply; `"remind"` lets it through. */
    action: "retry" | "stop" | "remind";
    toolName?: string;
    path?: string;
    /** Reason why a rule that interrupts only reminds. */
    degraded?: string;
  }

  /** Options of a call. */
  interface CallOptions {
    signal?: AbortSignal;
    /** Milliseconds. */
    timeout?: number;
  }

  interface HttpRequest extends CallOptions {
    url: string;
    method?: string;
    headers?: Record<string, string>;
    body?: string | Uint8Array;
    redirect?: string;
  }

  interface HttpResponse {
    status: number;
    statusText: string;
    headers: [string, string][];
    /** URL of the response, after redirects. */
    url: string;
    redirected: boolean;
    body: Uint8Array;
  }

  interface ExtensionAPI {
    /** Judges each delta of a reply. `sources` is `["text"]` without options. */
    on(event: "stream_text", handler: StreamTextHandler, options?: { sources?: StreamSource[] }): () => void;
    /** Observes streamed rules. */
    on(event: "rule_fired", handler: (event: RuleFiredEvent, ctx: ExtensionContext) => void): () => void;

    /** Runs a tool of the session. Needs the capability of the tool. */
    tool(name: string, input?: object, options?: CallOptions): Promise<unknown>;
    /** Makes one HTTP request. Needs `http`. */
    http(request: HttpRequest): Promise<HttpResponse>;
    /** Returns environment variables; one that is not set has no member. Needs `env`. */
    env(...names: string[]): Promise<Record<string, string>>;
    /** Writes a line to the extension's log and to the ledger. */
    log(level: "debug" | "info" | "warn" | "error", event: string, data?: unknown): void;
    /** Files by path, relative to the working folder. Needs `read` or `write`. */
    fs: {
      readFile(path: string): Promise<Uint8Array>;
      readText(path: string): Promise<string>;
      writeFile(path: string, data: string | Uint8Array): Promise<void>;
      appendFile(path: string, data: string | Uint8Array): Promise<void>;
      exists(path: string): Promise<boolean>;
      stat(path: string): Promise<Record<string, unknown>>;
      readdir(path: string): Promise<string[]>;
      mkdir(path: string, options?: { recursive?: boolean }): Promise<void>;
      remove(path: string, options?: { recursive?: boolean; force?: boolean }): Promise<void>;
    };
    /** `ctx.sessionManager` of the current session. */
    session: ExtensionContext["sessionManager"];
    /** `ctx.ui` of the current session. */
    ui: ExtensionContext["ui"];
    /** Another name for `registerCommand`. */
    registerSlashCommand: ExtensionAPI["registerCommand"];
  }
}
