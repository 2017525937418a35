/**
 * Replaces `auth/oauth/load.js` of pi-ai: only the user logs in, outside of extensions. pi's flows open servers and
 * browsers and result in keys, which extensions must not see.
 */

import { absent } from "pi:node/refuse";

const login = (provider: string): (() => Promise<never>) => async () =>
  absent(`the login of ${provider}`, "the user gives PiJS a key (`auth.json`, or the provider's variable), and requests through the session use it")();

export const loadAnthropicOAuth = login("Anthropic");
export const loadGitHubCopilotOAuth = login("GitHub Copilot");
export const loadKimiCodingOAuth = login("Kimi");
export const loadMetaOAuth = login("Meta");
export const loadOpenAICodexOAuth = login("OpenAI Codex");
export const loadOpenRouterOAuth = login("OpenRouter");
export const loadRadiusOAuth = login("Radius");
export const loadXaiOAuth = login("xAI");
