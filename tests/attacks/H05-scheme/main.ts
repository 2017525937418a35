import { attempt } from "./attack";

const addresses: Record<string, string> = {"unknown": "foo:bar", "mistyped": "htp://x", "slashes": "gopher://127.0.0.1/", "relative": "/a", "bare": "nope", "empty": "", "file": "file:///etc/passwd", "blob": "blob:x", "script": "javascript:1", "ws": "ws://127.0.0.1:1/"};

export default (pi: any) =>
  pi.on("session_start", async () => {
    for (const [name, address] of Object.entries(addresses)) await attempt(name, () => fetch(address));
  });
