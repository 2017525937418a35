import { attempt } from "./attack";
import { DatabaseSync } from "node:sqlite";
export default (pi: any) =>
  pi.on("session_start", () =>
    attempt("made", () => {
      const database = new DatabaseSync("other.db");
      database.exec("CREATE TABLE t (v); INSERT INTO t VALUES (1)");
      const found = (database.prepare("SELECT v FROM t").get() as any).v;
      database.close();
      return found;
    }),
  );
