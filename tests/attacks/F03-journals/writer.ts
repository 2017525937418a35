import { attempt } from "./attack";
import { DatabaseSync } from "node:sqlite";
export default (pi: any) =>
  pi.on("session_start", async () => {
    await attempt("made", () => {
      for (const [name, mode] of [["plain.db", "DELETE"], ["log.db", "WAL"]]) {
        const database = new DatabaseSync(name);
        database.exec(`PRAGMA journal_mode = ${mode}; CREATE TABLE t (v); INSERT INTO t VALUES (7)`);
        const is = database.prepare("PRAGMA journal_mode").get() as any;
        database.close();
        if (name === "log.db") return is.journal_mode;
      }
    });
  });
