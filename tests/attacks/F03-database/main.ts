import { attempt } from "./attack";
import { DatabaseSync } from "node:sqlite";
export default (pi: any) =>
  pi.on("session_start", async () => {
    await attempt("through", () => { new DatabaseSync("link/x.db").exec("create table t(a)"); });
    const database = new DatabaseSync("own.db");
    await attempt("attach", () => database.exec("ATTACH DATABASE '@@outside@@/y.db' AS o; CREATE TABLE o.t(a)"));
    await attempt("vacuum", () => database.exec("VACUUM INTO '@@outside@@/z.db'"));
    await attempt("load", () => database.exec("SELECT load_extension('@@outside@@/z.so')"));
  });
