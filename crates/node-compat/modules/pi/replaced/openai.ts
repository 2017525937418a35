/**
 * Replaces the package `openai` for the image requests of pi-ai: one request to a server that supports
 * OpenAI's chat completions, by `fetch`, so that the gate decides about the server.
 *
 * Errors have the members that pi-ai reads: `status`, `headers`, `error` (the body) and OpenAI's message.
 */

import { fetch } from "pi:web/fetch";
import { AbortController, AbortSignal } from "pi:web/abort";
import type { Headers } from "pi:web/headers";

interface ClientOptions {
  apiKey: string;
  baseURL: string;
  fetch?: typeof fetch | undefined;
  defaultHeaders?: Record<string, string> | undefined;
}

interface RequestOptions {
  signal?: AbortSignal;
  timeout?: number;
}

/** The response of a server that refuses. */
class APIError extends Error {
  readonly status: number | undefined;
  readonly headers: Headers | undefined;
  readonly error: unknown;

  constructor(status: number | undefined, error: any, message: string, headers?: Headers) {
    super(message);
    this.status = status;
    this.headers = headers;
    this.error = error;
  }
}

function refusal(status: number, body: string, headers: Headers): APIError {
  let parsed: any;
  try {
    parsed = JSON.parse(body);
  } catch {
    return new APIError(status, undefined, body === "" ? `${status} status code (no body)` : `${status} ${body}`, headers);
  }
  const error = parsed?.error ?? parsed;
  const said = typeof error?.message === "string" ? error.message : JSON.stringify(error?.message ?? error);
  return new APIError(status, error, `${status} ${said}`, headers);
}

export default class OpenAI {
  readonly #options: ClientOptions;
  readonly chat = { completions: { create: (params: object, options: RequestOptions = {}) => ({ withResponse: () => this.#post(params, options) }) } };

  constructor(options: ClientOptions) {
    this.#options = options;
  }

  async #post(params: object, { signal, timeout }: RequestOptions): Promise<object> {
    const { apiKey, baseURL, defaultHeaders } = this.#options;
    const send = this.#options.fetch ?? fetch;
    const signals = [signal ?? [], timeout === undefined ? [] : AbortSignal.timeout(timeout)].flat();
    const request = {
      method: "POST",
      headers: { accept: "application/json", authorization: `Bearer ${apiKey}`, "content-type": "application/json", ...defaultHeaders },
      body: JSON.stringify(params),
      signal: signals.length === 0 ? new AbortController().signal : AbortSignal.any(signals),
    };
    let response;
    try {
      response = await send(`${baseURL.replace(/\/$/, "")}/chat/completions`, request);
    } catch (error) {
      if (signal?.aborted) throw new APIError(undefined, undefined, "Request was aborted.");
      const failure = new APIError(undefined, undefined, error instanceof Error && error.name === "TimeoutError" ? "Request timed out." : "Connection error.");
      throw Object.assign(failure, { cause: error });
    }
    if (!response.ok) throw refusal(response.status, await response.text(), response.headers);
    return { data: await response.json(), response };
  }
}
