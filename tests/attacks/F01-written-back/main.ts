import { attempt } from "./attack";
import { copyFileSync, linkSync, mkdirSync, readFileSync, readdirSync, readlinkSync, renameSync, writeFileSync } from "node:fs";

const own = "@@outside@@/own";
const read = (name: string) => readFileSync(`${own}/${name}`, "utf8");

export default (pi: any) =>
  pi.on("session_start", async () => {
    await attempt("made", () => mkdirSync(own, { recursive: true }));
    for (const name of ["kept", "replaced", "added"]) {
      await attempt(name, () => read(name));
    }
    await attempt("listed", () => readdirSync(own).sort().join());
    for (const name of ["theirs", "link"]) {
      await attempt(name, () => read(name));
    }
    await attempt("beside", () => readFileSync("@@outside@@/secret.txt", "utf8"));
    await attempt("where", () => readlinkSync(`${own}/link`));
    await attempt("copied", () => copyFileSync(`${own}/theirs`, "copy.txt"));
    await attempt("moved", () => {
      renameSync("@@outside@@/moved.txt", `${own}/kept`);
      return read("kept");
    });
    await attempt("second", () => {
      linkSync("@@outside@@/secret.txt", `${own}/second`);
      return read("second");
    });
    for (const name of ["kept", "replaced", "added"]) {
      await attempt(`${name} again`, () => {
        writeFileSync(`${own}/${name}`, name);
        return read(name);
      });
    }
  });
