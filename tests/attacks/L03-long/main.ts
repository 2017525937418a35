/** Makes the host search for secrets in megabytes that nearly match at each position. */
import { existsSync } from "node:fs";
import { report } from "./attack";

const texts = ["xsk-", "-----BEGIN PRIVATE KEY-----a-----END PRIVATE KEY-----", "token:", "://a:b@", "%5c\\u0022"].map((piece) => piece.repeat(1_000_000 / piece.length));

export default (pi: any) => {
  pi.on("session_start", () => {
    for (const text of texts) {
      existsSync(text);
      console.log(text);
      setTimeout(() => {
        throw new Error(text);
      });
    }
  });
  pi.on("turn_end", () => report("done", true));
};
