/**
 * In place of `core/remote-catalog-provider.js` of pi-coding-agent: the session's list of models is the
 * session's to refresh.
 */

export const withRemoteCatalog = <P>(provider: P, _catalogBaseUrl?: string, _localGeneratedAt?: number): P => provider;
