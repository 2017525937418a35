/**
 * `pi:pi/accounts`: log-ins to a provider of this extension, by the `oauth` of its configuration or of the `auth` of a provider
 * of pi-ai.
 */

import { uiOfSession } from "pi:pi/ui";
import { AbortController } from "pi:web/abort";
import type { AbortSignal } from "pi:web/abort";

type Config = Record<string, any>;

/** pi's `Credential`: a log-in with the extension's own data, or an API key of the user. */
export type Stored = { type: "oauth"; [member: string]: any } | { type: "api_key"; key: string };

/** pi's `ModelAuth`: the authorisation of a request. */
export interface ModelAuth {
  apiKey?: string | undefined;
  headers?: Record<string, string | null>;
  baseUrl?: string;
}

/** pi's `AuthInteraction`: dialogs and messages of a log-in. */
interface Interaction {
  prompt(prompt: Config): Promise<string>;
  notify(event: Config): void;
  signal: AbortSignal;
}

/** pi's `OAuthAuth`. */
export interface OAuth {
  login(interaction: Interaction): Promise<unknown>;
  refresh(credential: Stored, signal: AbortSignal): Promise<unknown>;
  toAuth(credential: Stored): ModelAuth | Promise<ModelAuth>;
}

/** Stored credentials by provider, as last reported by the host. */
const stored = new Map<string, Stored>();

export const storedFor = (provider: string): Stored | undefined => stored.get(provider);

export function takeStored(provider: string, credential: Stored | null | undefined): void {
  if (credential) stored.set(provider, credential);
  else stored.delete(provider);
}

/** Converts the `oauth` of a configuration to pi-ai's form. */
export function adapted(oauth: Config): OAuth {
  return {
    login: ({ prompt, notify, signal }) =>
      oauth.login({
        onAuth: (info: Config) => notify({ type: "auth_url", ...info }),
        onDeviceCode: (info: Config) => notify({ type: "device_code", ...info }),
        onProgress: (message: string) => notify({ type: "progress", message }),
        onPrompt: (asked: Config) => prompt({ type: "text", ...asked }),
        onManualCodeInput: () => prompt({ type: "manual_code", message: "Paste the authorization code" }),
        onSelect: (asked: Config) => prompt({ type: "select", ...asked }),
        signal,
      }),
    refresh: (credential, signal) => oauth.refreshToken({ ...credential }, signal),
    toAuth: (credential) => ({ apiKey: String(oauth.getApiKey({ ...credential })) }),
  };
}

/** Returns the text that shows a log-in event to the user. */
function wordsOf(event: Config): string {
  if (event.type === "auth_url") return `Open this page to log in: ${event.url}${event.instructions ? `\n${event.instructions}` : ""}`;
  if (event.type === "device_code") return `Open ${event.verificationUri} and enter the code ${event.userCode}`;
  const links = (event.links ?? []).map(({ url, label }: Config) => `\n${label ? `${label}: ` : ""}${url}`);
  return `${event.message}${links.join("")}`;
}

/** Runs a log-in with the session's dialogs. */
export async function logIn(oauth: OAuth): Promise<unknown> {
  const ui = uiOfSession();
  const over = new AbortController();
  let giveUp!: () => void;
  const givenUp = new Promise<never>((_, reject) => {
    giveUp = () => {
      reject(new Error("Login cancelled"));
      over.abort();
    };
  });
  /** Closes the dialog that is open while the extension waits for an external event. */
  let stopWaiting = (): void => {};

  const waitFor = (): void => {
    stopWaiting();
    const shown = new AbortController();
    stopWaiting = () => shown.abort();
    over.signal.addEventListener("abort", stopWaiting);
    void ui.select("Waiting for the log-in to be finished there", ["Cancel"], { signal: shown.signal }).then(() => {
      if (!shown.signal.aborted) giveUp();
    });
  };
  const interaction: Interaction = {
    notify(event) {
      ui.notify(wordsOf(event));
      if (event.type === "auth_url" || event.type === "device_code") waitFor();
    },
    async prompt({ type, message, placeholder, options: choices, signal: withdrawn }) {
      stopWaiting();
      const dialog = new AbortController();
      for (const signal of [over.signal, withdrawn]) signal?.addEventListener("abort", () => dialog.abort());
      const options = { signal: dialog.signal };
      if (type === "select") {
        const label = await ui.select(message, choices.map((choice: Config) => choice.label), options);
        const chosen = choices.find((choice: Config) => choice.label === label);
        if (chosen !== undefined) return chosen.id;
      } else {
        const text = await ui.input(message, placeholder, options);
        if (text !== undefined) return text;
      }
      // A log-in that has ended needs no answer.
      if (over.signal.aborted) return new Promise<never>(() => {});
      if (!withdrawn?.aborted) giveUp();
      throw new Error("Login cancelled");
    },
    signal: over.signal,
  };
  try {
    return await Promise.race([oauth.login(interaction), givenUp]);
  } finally {
    over.abort();
  }
}
