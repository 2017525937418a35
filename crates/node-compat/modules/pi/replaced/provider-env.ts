/**
 * Replaces `utils/provider-env.js` of pi-ai, which pi's loader does not expose: a setting of a provider from the request's
 * options, otherwise from the environment that the extension may read.
 */

import { process } from "node:process";

export function getProviderEnvValue(name: string, env?: Record<string, string>): string | undefined {
  return env?.[name] || process.env[name] || undefined;
}
