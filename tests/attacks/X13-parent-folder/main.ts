import { attempt } from "./attack";
import { execFileSync } from "node:child_process";
const copy = (from: string, to: string) => () => {
  execFileSync("@@outside@@/copier", [from, to], { encoding: "utf8", stdio: "pipe" });
  return 0;
};
export default (pi: any) =>
  pi.on("session_start", async () => {
    await attempt("home", copy("@@home@@", "grab"));
    await attempt("linked", copy("way", "grab2"));
    await attempt("root", copy("@@home@@/notes/../.", "grab3"));
    await attempt("own", copy("@@home@@/notes", "notes"));
  });
