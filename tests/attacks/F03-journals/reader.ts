import { attempt } from "./attack";
import { DatabaseSync } from "node:sqlite";
const first = (name: string) => (new DatabaseSync(name, { readOnly: true }).prepare("SELECT v FROM t").get() as any).v;
export default (pi: any) =>
  pi.on("session_start", async () => {
    await attempt("plain", () => first("plain.db"));
    await attempt("log", () => first("log.db"));
    await attempt("alone", () => { new DatabaseSync("alone.db").exec("CREATE TABLE t (v)"); });
  });
