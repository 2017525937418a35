/** `node:url`: the WHATWG classes, file URLs, and the legacy parse, format and resolve. */

import { facts, importSync } from "pi:engine";
import { checkString, coded, invalidArgType } from "pi:node/errors";
import { URL as UrlClass, URLSearchParams as ParamsClass } from "pi:web/url";
import { posix, win32 } from "node:path";
import { parse as parseQuery, stringify as queryText } from "node:querystring";

export const URL = UrlClass;
export const URLSearchParams = ParamsClass;

const windowsHost = facts.platform === "win32";

interface FileUrlOptions {
  windows?: boolean;
}

/** Returns the path that a `file:` URL names. */
export function fileURLToPath(url: string | UrlClass, options?: FileUrlOptions): string {
  const parsed = typeof url === "string" ? new UrlClass(url) : url;
  if (typeof parsed !== "object" || parsed === null || !("href" in parsed)) {
    throw invalidArgType("path", "of type string or an instance of URL", url);
  }
  if (parsed.protocol !== "file:") throw coded(TypeError, "ERR_INVALID_URL_SCHEME", "The URL must be of scheme file");
  const { pathname, hostname } = parsed;
  if (options?.windows ?? windowsHost) {
    if (/%2f|%5c/i.test(pathname)) {
      throw coded(TypeError, "ERR_INVALID_FILE_URL_PATH", "File URL path must not include encoded \\ or / characters");
    }
    const path = decodeURIComponent(pathname.replaceAll("/", "\\"));
    if (hostname !== "") return `\\\\${hostname}${path}`;
    if (!/^\\[A-Za-z]:/.test(path)) throw coded(TypeError, "ERR_INVALID_FILE_URL_PATH", "File URL path must be absolute");
    return path.slice(1);
  }
  if (hostname !== "") {
    throw coded(TypeError, "ERR_INVALID_FILE_URL_HOST", `File URL host must be "localhost" or empty on ${facts.platform ?? "linux"}`);
  }
  if (/%2f/i.test(pathname)) {
    throw Object.assign(coded(TypeError, "ERR_INVALID_FILE_URL_PATH", "File URL path must not include encoded / characters"), { input: parsed });
  }
  return decodeURIComponent(pathname);
}

/** Returns the `file:` URL of a path, which is resolved first. A trailing separator is kept. */
export function pathToFileURL(path: string, options?: FileUrlOptions): UrlClass {
  checkString("path", path);
  const windows = options?.windows ?? windowsHost;
  let resolved = (windows ? win32 : posix).resolve(path);
  if (/[\\/]$/.test(path) && (windows || path.endsWith("/")) && !resolved.endsWith(windows ? "\\" : "/")) resolved += windows ? "\\" : "/";
  const escaped = resolved.replace(/%/g, "%25").replace(/\n/g, "%0A").replace(/\r/g, "%0D").replace(/\t/g, "%09");
  const slashes = windows ? escaped.replaceAll("\\", "/") : escaped.replace(/\\/g, "%5C");
  const safe = slashes.replace(/\?/g, "%3F").replace(/#/g, "%23");
  if (windows && safe.startsWith("//")) return new UrlClass(`file:${safe}`);
  return new UrlClass(`file://${safe.startsWith("/") ? "" : "/"}${safe}`);
}

export function urlToHttpOptions(url: UrlClass): Record<string, unknown> {
  const { hostname, pathname, port, username, password, search } = url;
  const options: Record<string, unknown> = {
    __proto__: null,
    protocol: url.protocol,
    hostname: hostname.startsWith("[") ? hostname.slice(1, -1) : hostname,
    hash: url.hash,
    search,
    pathname,
    path: `${pathname}${search}`,
    href: url.href,
  };
  if (port !== "") options.port = Number(port);
  if (username || password) options.auth = `${decodeURIComponent(username)}:${decodeURIComponent(password)}`;
  return options;
}

export function domainToASCII(domain: string): string {
  return UrlClass.canParse(`ws://${domain}`) ? new UrlClass(`ws://${domain}`).hostname : "";
}
export function domainToUnicode(domain: string): string {
  const ascii = domainToASCII(domain);
  return ascii.includes("xn--") ? importSync("node:punycode").toUnicode(ascii) : ascii;
}

// The legacy interface

const SLASHED = new Set(["http:", "https:", "ftp:", "gopher:", "file:", "ws:", "wss:"]);

/** The result of the legacy `parse`. */
export class Url {
  protocol: string | null = null;
  slashes: boolean | null = null;
  auth: string | null = null;
  host: string | null = null;
  port: string | null = null;
  hostname: string | null = null;
  hash: string | null = null;
  search: string | null = null;
  query: string | Record<string, unknown> | null = null;
  pathname: string | null = null;
  path: string | null = null;
  href = "";

  format(): string {
    return format(this);
  }
  resolve(relative: string): string {
    return resolve(this.href, relative);
  }
}

export function parse(input: string, parseQueryString: boolean = false, slashesDenoteHost: boolean = false): Url {
  checkString("url", input);
  const url = new Url();
  let rest = input.trim();
  const hash = rest.indexOf("#");
  if (hash >= 0) {
    url.hash = rest.slice(hash);
    rest = rest.slice(0, hash);
  }
  const question = rest.indexOf("?");
  if (question >= 0) {
    url.search = rest.slice(question);
    rest = rest.slice(0, question);
  }
  const query = url.search?.slice(1) ?? null;
  url.query = parseQueryString ? parseQuery(query ?? "") : query;
  if (parseQueryString) url.search ??= "";
  const scheme = /^([a-z0-9.+-]+:)/i.exec(rest);
  if (scheme) {
    url.protocol = scheme[1]!.toLowerCase();
    rest = rest.slice(scheme[1]!.length);
  }
  const slashes = rest.startsWith("//") && (scheme !== null || slashesDenoteHost);
  // `mailto:a@b` has a host too: only the usual protocols require slashes before it.
  const bare = scheme !== null && !SLASHED.has(url.protocol!);
  if ((slashes || bare) && url.protocol !== "javascript:") {
    if (slashes) {
      url.slashes = true;
      rest = rest.slice(2);
    }
    const end = rest.search(/[/\\]/);
    let authority = end < 0 ? rest : rest.slice(0, end);
    rest = end < 0 ? "" : rest.slice(end).replaceAll("\\", "/");
    const at = authority.lastIndexOf("@");
    if (at >= 0) {
      url.auth = decodeURIComponent(authority.slice(0, at));
      authority = authority.slice(at + 1);
    }
    const port = /:(\d*)$/.exec(authority);
    if (port) {
      if (port[1] !== "") url.port = port[1]!;
      authority = authority.slice(0, -port[0].length);
    }
    const name = authority.toLowerCase();
    url.hostname = name.startsWith("[") ? name.slice(1, -1) : name;
    url.host = name + (url.port === null ? "" : `:${url.port}`);
    if (rest === "" && url.protocol && SLASHED.has(url.protocol)) rest = "/";
  }
  url.pathname = rest === "" ? null : rest.replace(/[ "<>\\^`{|}\t\n\r']/g, (character) => `%${character.charCodeAt(0).toString(16).toUpperCase().padStart(2, "0")}`);
  if (url.pathname !== null || url.search) url.path = (url.pathname ?? "") + (url.search ?? "");
  url.href = format(url);
  return url;
}

interface FormatOptions {
  auth?: boolean;
  fragment?: boolean;
  search?: boolean;
  unicode?: boolean;
}

export function format(input: string | UrlClass | Partial<Url>, options: FormatOptions = {}): string {
  if (typeof input === "string") return parse(input).href;
  if (typeof input !== "object" || input === null) throw invalidArgType("urlObject", "one of type object or string", input);
  if (input instanceof UrlClass) {
    const url = new UrlClass(input.href);
    if (options.auth === false) url.username = url.password = "";
    if (options.fragment === false) url.hash = "";
    if (options.search === false) url.search = "";
    const { href, hostname } = url;
    if (!options.unicode || !hostname) return href;
    const at = url.username || url.password ? href.indexOf("@") + 1 : href.indexOf("//") + 2;
    return href.slice(0, at) + domainToUnicode(hostname) + href.slice(at + hostname.length);
  }
  let protocol = input.protocol ?? "";
  if (protocol && !protocol.endsWith(":")) protocol += ":";
  const auth = input.auth ? `${encodeURIComponent(input.auth).replace("%3A", ":")}@` : "";
  let host = "";
  if (input.host) host = auth + input.host;
  else if (input.hostname) {
    const name = input.hostname.includes(":") && !input.hostname.startsWith("[") ? `[${input.hostname}]` : input.hostname;
    host = auth + name + (input.port ? `:${input.port}` : "");
  }
  let pathname = input.pathname ?? "";
  let search = input.search ?? (input.query && typeof input.query === "object" ? queryText(input.query) : "");
  if (search && !search.startsWith("?")) search = `?${search}`;
  let hash = input.hash ?? "";
  if (hash && !hash.startsWith("#")) hash = `#${hash}`;
  if (input.slashes || SLASHED.has(protocol)) {
    if (input.slashes || host) {
      if (pathname && !pathname.startsWith("/")) pathname = `/${pathname}`;
      host = `//${host}`;
    }
  }
  return protocol + host + pathname.replace(/[?#]/g, encodeURIComponent) + search.replace("#", "%23") + hash;
}

/** Resolves a URL as a browser does. A relative base stays relative. */
export function resolve(from: string, to: string): string {
  const marker = "resolve://relative";
  const absolute = UrlClass.canParse(from);
  const url = new UrlClass(to, new UrlClass(from, absolute ? undefined : marker));
  if (url.protocol !== "resolve:") return url.href;
  const text = url.href.slice(marker.length);
  return from.startsWith("/") || to.startsWith("/") ? text : text.slice(1);
}

export function resolveObject(from: string, to: string): Url {
  return parse(resolve(from, to));
}

export default { URL, URLSearchParams, Url, fileURLToPath, pathToFileURL, urlToHttpOptions, domainToASCII, domainToUnicode, parse, format, resolve, resolveObject };
