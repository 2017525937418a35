import { DatabaseSync, StatementSync } from "node:sqlite";
import { existsSync } from "node:fs";

const attempt = (call) => {
  try {
    log(call());
  } catch (error) {
    log(error.name, error.code, error.errcode, error.errstr, error.message);
  }
};

const db = new DatabaseSync("data.db");
log(db.isOpen, existsSync("data.db"));
db.exec("CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT, price REAL, data BLOB); INSERT INTO t (name) VALUES ('first')");
const insert = db.prepare("INSERT INTO t (name, price, data) VALUES (?, ?, ?)");
log(insert instanceof StatementSync, insert.run("second", 1.5, new Uint8Array([1, 2])), insert.run(null, 2, null));
log(db.prepare("SELECT * FROM t ORDER BY id").all());
log(db.prepare("SELECT * FROM t WHERE id = ?").get(2), db.prepare("SELECT * FROM t WHERE id = ?").get(99));
log(db.prepare("SELECT name FROM t WHERE name = $name").get({ name: "first" }), db.prepare("SELECT :a AS a, @b AS b").get({ ":a": 1, b: "two" }));
log([...db.prepare("SELECT id FROM t").iterate()].map((row) => row.id), db.prepare("UPDATE t SET price = 9").run().changes);
log(db.prepare("SELECT id, price FROM t").columns().map(({ name, type }) => [name, type]), db.prepare("SELECT 1").sourceSQL);
log(typeof db.prepare("SELECT price FROM t").get().price);
{
  const big = db.prepare("SELECT 9007199254740993 AS big");
  attempt(() => big.get());
  big.setReadBigInts(true);
  log(big.get(), db.prepare("SELECT ? AS v").get(2n ** 62n - 1n === 0n ? 0 : 7n));
}
db.exec("BEGIN; INSERT INTO t (name) VALUES ('gone'); ROLLBACK");
log(db.prepare("SELECT count(*) AS n FROM t").get());
db.exec("CREATE VIRTUAL TABLE words USING fts5(body, tokenize='porter')");
db.prepare("INSERT INTO words VALUES (?)").run("running quickly through fields");
log(db.prepare("SELECT body FROM words WHERE words MATCH ?").all("run"), db.prepare("SELECT json_extract(?, '$.a') AS a").get('{"a":5}'));
attempt(() => db.exec("SELEC 1"));
attempt(() => db.prepare("SELECT * FROM missing"));
attempt(() => db.exec("INSERT INTO t (id) VALUES (1)"));
attempt(() => db.prepare("SELECT ?").get(1, 2));
attempt(() => db.prepare("SELECT $a").get({ b: 1 }));
attempt(() => db.prepare("SELECT ?").get(undefined));
attempt(() => db.exec(5));
attempt(() => new DatabaseSync(5));
attempt(() => new DatabaseSync("no/such/folder/x.db"));
attempt(() => new StatementSync());
db.close();
attempt(() => db.close());
attempt(() => db.exec("SELECT 1"));
const again = new DatabaseSync("data.db", { readOnly: true });
log(again.prepare("SELECT count(*) AS n FROM t").get().n);
attempt(() => again.exec("DELETE FROM t"));
again.close();
const memory = new DatabaseSync(":memory:");
memory.exec("CREATE TABLE m (x)");
log(memory.prepare("SELECT count(*) AS n FROM m").get(), memory.location?.() ?? null);
const later = new DatabaseSync(":memory:", { open: false });
log(later.isOpen);
later.open();
log(later.isOpen);
memory.exec("PRAGMA foreign_keys");
log(memory.prepare("PRAGMA foreign_keys").get());
