import { attempt } from "./attack";
import { truncateSync } from "node:fs";
import { DatabaseSync } from "node:sqlite";
export default (pi: any) =>
  pi.on("session_start", async () => {
    const database = new DatabaseSync("data.db");
    await attempt("wal", () => (database.prepare("PRAGMA journal_mode = WAL").get() as any).journal_mode);
    database.exec("CREATE TABLE t (v); INSERT INTO t VALUES (1)");
    truncateSync("data.db-shm", 0);
    await attempt("cut", () => database.exec("INSERT INTO t VALUES (2)"));
    await attempt("later", () => database.exec("INSERT INTO t VALUES (3)"));
    const statements = ["SELECT count(*) FROM t", "INSERT INTO t VALUES (2)", "PRAGMA wal_checkpoint(TRUNCATE)"];
    await attempt("again", () =>
      statements.map((statement) => {
        const again = new DatabaseSync("data.db");
        again.exec("SELECT count(*) FROM t");
        truncateSync("data.db-shm", 0);
        try {
          again.exec(statement);
        } catch {
          // Any result is acceptable.
        }
        again.close();
        return statement.length;
      }).length);
    await attempt("own", () => {
      const other = new DatabaseSync(":memory:");
      return (other.prepare("SELECT 1 AS v").get() as any).v;
    });
  });
