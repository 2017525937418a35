/**
 * `pi:pi/accounts`: log-ins that a provider of this extension brings (`oauth` of its configuration).
 *
 * What comes of a log-in is kept by the host, which hands it back before a request is made.
 */

import { uiOfSession } from "pi:pi/ui";
import { AbortController } from "pi:web/abort";

type Config = Record<string, any>;

/** pi's credential: a log-in with what its extension keeps there, or a key that a person gave. */
export type Stored = { type: "oauth"; [member: string]: any } | { type: "api_key"; key: string };

/** What is stored for each provider, as the host said last. */
const stored = new Map<string, Stored>();

export const storedFor = (provider: string): Stored | undefined => stored.get(provider);

export function takeStored(provider: string, credential: Stored | null | undefined): void {
  if (credential) stored.set(provider, credential);
  else stored.delete(provider);
}

/** The key that a credential stands for. */
export function keyOf(credential: Stored, oauth: Config | undefined): string | undefined {
  if (credential.type === "api_key") return credential.key;
  return typeof oauth?.getApiKey === "function" ? String(oauth.getApiKey({ ...credential })) : undefined;
}

/** Runs a log-in: what it asks and tells is shown by dialogs of the session. */
export async function logIn(oauth: Config): Promise<unknown> {
  const ui = uiOfSession();
  const over = new AbortController();
  let giveUp!: () => void;
  const givenUp = new Promise<never>((_, reject) => {
    giveUp = () => {
      reject(new Error("Login cancelled"));
      over.abort();
    };
  });
  /** Ends the dialog that is shown while the extension waits for somebody else. */
  let stopWaiting = (): void => {};

  const waitFor = (text: string): void => {
    stopWaiting();
    ui.notify(text);
    const shown = new AbortController();
    stopWaiting = () => shown.abort();
    over.signal.addEventListener("abort", stopWaiting);
    void ui.select("Waiting for the log-in to be finished there", ["Cancel"], { signal: shown.signal }).then(() => {
      if (!shown.signal.aborted) giveUp();
    });
  };
  const asked = async <T>(show: (options: { signal: any }) => Promise<T | undefined>): Promise<T> => {
    stopWaiting();
    const answer = await show({ signal: over.signal });
    if (answer !== undefined) return answer;
    // Nobody waits for an answer once the log-in is over.
    if (over.signal.aborted) return new Promise<never>(() => {});
    giveUp();
    throw new Error("Login cancelled");
  };
  const callbacks = {
    onAuth: ({ url, instructions }: Config) => waitFor(`Open this page to log in: ${url}${instructions ? `\n${instructions}` : ""}`),
    onDeviceCode: ({ userCode, verificationUri }: Config) => waitFor(`Open ${verificationUri} and enter the code ${userCode}`),
    onProgress: (message: string) => ui.notify(message),
    onPrompt: ({ message, placeholder }: Config) => asked((options) => ui.input(message, placeholder, options)),
    onManualCodeInput: () => asked((options) => ui.input("Paste the authorization code", undefined, options)),
    async onSelect({ message, options: choices }: { message: string; options: { id: string; label: string }[] }) {
      const labels = choices.map(({ label }) => label);
      const label = await asked((options) => ui.select(message, labels, options));
      return choices.find((choice) => choice.label === label)?.id;
    },
    signal: over.signal,
  };
  try {
    return await Promise.race([oauth.login(callbacks), givenUp]);
  } finally {
    over.abort();
  }
}
