import { attempt } from "./attack";
import { DatabaseSync } from "node:sqlite";

// The text of each row is short; their number exceeds the limit of a message, or of the host.
export default (pi: any) => {
  pi.on("session_start", async () => {
    const database = new DatabaseSync(":memory:");
    const numbers = "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t LIMIT 150000)";
    await attempt("values", () => database.prepare(`${numbers} SELECT ${new Array(20).fill("n").map((n, at) => `${n} AS c${at}`)} FROM t`).all().length);
    await attempt("bytes", () => database.prepare(`${numbers} SELECT zeroblob(1048576) AS n FROM t LIMIT 150`).all().length);
    await attempt("after", () => database.prepare("SELECT 7 AS n").get()!.n);
  });
};
