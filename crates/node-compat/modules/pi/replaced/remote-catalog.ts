/**
 * Replaces `core/remote-catalog-provider.js` of pi-coding-agent: only the session refreshes its list of models.
 */

export const withRemoteCatalog = <P>(provider: P, _catalogBaseUrl?: string, _localGeneratedAt?: number): P => provider;
