/**
 * Methods and notifications of the client protocol. A registered tool is also a method, unless a method has its name:
 * `{run, path, body?, to?, attributes?}` dispatches it.
 */

import type { Callback } from "./hook_registry.ts";
import type { ToolRegistry } from "./tool_registry.ts";

export interface Method {
  readonly handler: Callback;
  readonly description: string;
  readonly params: Record<string, string>;
  readonly requiresInit: boolean;
  readonly longRunning: boolean;
}

const TOOL_PARAMS = {
  run: "string: alias of the run",
  path: "string: path of the entry",
  body: "string?: its content",
  to: "string?: destination",
  attributes: "object?: further attributes",
};

type Fallback = (name: string, params: any, context: any) => Promise<unknown>;

export class RpcRegistry {
  readonly #methods = new Map<string, Method>();
  readonly #notifications = new Map<string, { description: string }>();
  readonly #tools: ToolRegistry;
  #fallback: Fallback | undefined;

  constructor(tools: ToolRegistry) {
    this.#tools = tools;
  }

  register(name: string, method: Partial<Method> & { handler: Callback }): void {
    const { handler, description = "", params = {}, requiresInit = false, longRunning = false } = method;
    this.#methods.set(name, Object.freeze({ handler, description, params, requiresInit, longRunning }));
  }

  registerNotification(name: string, description = ""): void {
    this.#notifications.set(name, Object.freeze({ description }));
  }

  /** Sets the function that runs a tool called as a method: `(hooks, buildRunContext, dispatchTool)`, or one of the dialect. */
  setToolFallback(hooks: any, buildRunContext?: Callback, dispatchTool?: Callback): void {
    this.#fallback = typeof hooks === "function" ? hooks : async (name, params, context) => {
      const { rummy } = await buildRunContext!(hooks, context, params.run);
      const attributes = { path: params.path, to: params.to, ...params.attributes };
      await dispatchTool!(hooks, rummy, name, params.path, params.body ?? "", attributes);
      return { status: "ok" };
    };
  }

  get(name: string): Method | undefined {
    const fallback = this.#fallback;
    const method = this.#methods.get(name);
    if (method || !fallback || !this.#tools.has(name)) return method;
    const handler = async (params: any, context: any) => {
      for (const needed of ["path", "run"]) {
        if (!params?.[needed]) throw new Error(`${name}: ${needed} is required`);
      }
      return fallback(name, params, context);
    };
    return { handler, description: `Dispatches the tool ${name}.`, params: TOOL_PARAMS, requiresInit: true, longRunning: false };
  }

  has(name: string): boolean {
    return this.get(name) !== undefined;
  }

  discover(): { methods: Record<string, object>; notifications: Record<string, object> } {
    const names = [...this.#methods.keys(), ...this.#tools.names.filter((name) => !this.#methods.has(name) && this.has(name))];
    const methods = names.map((name): [string, object] => {
      const { description, params } = this.get(name)!;
      return [name, { description, params }];
    });
    return { methods: Object.fromEntries(methods), notifications: Object.fromEntries(this.#notifications) };
  }
}
