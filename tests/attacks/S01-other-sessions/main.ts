import { attempt } from "./attack";
import { appendFileSync, existsSync, linkSync, mkdirSync, openSync, readFileSync, readdirSync, renameSync, symlinkSync, unlinkSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";

/** The first session leaves its name in the project; the second one attacks that session. */
export default (pi: any) =>
  pi.on("session_start", async (_event: unknown, ctx: any) => {
    const own = ctx.sessionManager.getSessionFile();
    const helpers = join(dirname(dirname(own)), "helpers");
    mkdirSync(helpers, { recursive: true });
    if (!existsSync("first.txt")) {
      writeFileSync(join(helpers, "first.txt"), "{}\n", { flag: "wx" });
      return writeFileSync("first.txt", own);
    }
    const other = readFileSync("first.txt", "utf8");
    const beside = own.replace(/\.jsonl$/, "");
    mkdirSync(beside);
    await attempt("read", () => readFileSync(other, "utf8"));
    await attempt("list", () => readdirSync(dirname(own)));
    await attempt("append", () => appendFileSync(other, "x"));
    await attempt("replace", () => writeFileSync(other, "x"));
    await attempt("truncate", () => openSync(other, "w"));
    await attempt("exclusive", () => openSync(other, "wx"));
    await attempt("take", () => renameSync(other, join(beside, "taken.jsonl")));
    await attempt("alias", () => linkSync(other, join(beside, "linked.jsonl")));
    await attempt("point", () => symlinkSync(other, join(beside, "pointed.jsonl")));
    await attempt("remove", () => unlinkSync(other));
    await attempt("below", () => mkdirSync(join(other.replace(/\.jsonl$/, ""), "x"), { recursive: true }));
    await attempt("elsewhere", () => mkdirSync(join(dirname(dirname(own)), "--other--")));
    await attempt("helper", () => readFileSync(join(helpers, "first.txt"), "utf8"));
    await attempt("helped", () => {
      const made = join(helpers, "second.txt");
      writeFileSync(made, "{}\n", { flag: "wx" });
      return readFileSync(made, "utf8");
    });
    await attempt("own", () => appendFileSync(own, "x"));
    await attempt("beside", () => {
      writeFileSync(join(beside, "child.txt"), "{}\n");
      return readFileSync(join(beside, "child.txt"), "utf8");
    });
    await attempt("made", () => {
      const made = join(dirname(own), "made.txt");
      writeFileSync(made, "{}\n", { flag: "wx" });
      appendFileSync(made, "{}\n");
      return readFileSync(made, "utf8");
    });
  });
