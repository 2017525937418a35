/**
 * In place of `utils/provider-env.js` of pi-ai, which pi's loader gives to nobody: a setting of a provider from
 * what was given with the request, else from the environment as the extension may see it.
 */

import { process } from "node:process";

export function getProviderEnvValue(name: string, env?: Record<string, string>): string | undefined {
  return env?.[name] || process.env[name] || undefined;
}
