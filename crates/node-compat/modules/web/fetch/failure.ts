/**
 * `pi:web/fetch/failure`: the cause of a failed request, in the form of Node's fetch.
 *
 * The rejection is a TypeError `fetch failed`; its cause distinguishes an unknown name (`ENOTFOUND`), a closed port
 * (`ECONNREFUSED`), a connection that ended early (`UND_ERR_SOCKET`) and a failed connection. A refusal by the gate is
 * passed on unchanged: it names the missing grant.
 */

import { importSync } from "pi:engine";
import { HostcallError } from "pi:hostcall";
import { URL } from "pi:web/url";

/** System errors that can occur while connecting. */
const CONNECTING = ["ENOTFOUND", "ECONNREFUSED", "EHOSTUNREACH", "ENETUNREACH", "EACCES", "ECONNABORTED"];

class SocketError extends Error {
  override name = "SocketError";
  readonly code = "UND_ERR_SOCKET";
}

class ConnectTimeoutError extends Error {
  override name = "ConnectTimeoutError";
  readonly code = "UND_ERR_CONNECT_TIMEOUT";
}

function wordsOf(errno: string, failure: HostcallError): Error {
  // For a body that cannot be decoded, uses zlib's message.
  const { words, number } = failure.details;
  if (words !== undefined) return Object.assign(new Error(words), number === undefined ? {} : { errno: number, code: errno });
  // The host's own limit, whose message contains the size.
  if (errno === "EFBIG") return failure;
  if (errno === "EREDIRECT") return new Error("unexpected redirect");
  if (errno === "ETOOMANYREDIRECTS") return new Error("redirect count exceeded");
  return new SocketError("other side closed");
}

/** Returns the cause of a failed fetch of `url`. */
export function causeOf(failure: unknown, url: string): unknown {
  if (!(failure instanceof HostcallError)) return failure;
  const { hostname, port, protocol } = new URL(url);
  if (failure.code === "timeout") return new ConnectTimeoutError(`Connect Timeout Error (attempted address: ${hostname}:${port || (protocol === "https:" ? 443 : 80)})`);
  if (failure.code !== "io") return failure;
  const errno = String(failure.details.errno);
  if (!CONNECTING.includes(errno)) return wordsOf(errno, failure);
  const where = { host: hostname === "localhost" ? "127.0.0.1" : hostname, port: Number(port) || (protocol === "https:" ? 443 : 80) };
  return importSync("pi:node/net/socket").netError(failure, "connect", where);
}
