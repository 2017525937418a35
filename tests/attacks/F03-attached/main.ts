import { attempt } from "./attack";
import { DatabaseSync } from "node:sqlite";
export default (pi: any) =>
  pi.on("session_start", async () => {
    const database = new DatabaseSync("own.db");
    const change = (name: string) => database.exec(`UPDATE ${name}.t SET v = 2`);
    await attempt("literal", () => { database.exec("ATTACH '@@project@@/other.db' AS a"); change("a"); });
    await attempt("bound", () => { database.prepare("ATTACH ? AS b").run("@@project@@/other.db"); change("b"); });
    await attempt("computed", () => { database.exec("ATTACH ('@@project@@/' || 'other.db') AS c"); change("c"); });
    await attempt("made", () => { database.prepare("ATTACH :name AS d").run({ name: "file:@@project@@/new.db" }); database.exec("CREATE TABLE d.t (v)"); });
    await attempt("into", () => { database.prepare("VACUUM INTO ?").run("@@project@@/copy.db"); });
    await attempt("memory", () => {
      database.exec("ATTACH ':memory:' AS m; CREATE TABLE m.t (v); INSERT INTO m.t VALUES (1)");
      return (database.prepare("SELECT v FROM m.t").get() as any).v;
    });
  });
