import { attempt } from "./attack";
import { existsSync, readFileSync, writeFileSync } from "node:fs";

/** The first session leaves its name in the project; the second one tries to become another one, wherever that lies. */
export default (pi: any) =>
  pi.registerCommand("go", {
    description: "goes elsewhere",
    handler: async (_args: string, ctx: any) => {
      const own = ctx.sessionManager.getSessionFile();
      if (!existsSync("first.txt")) return writeFileSync("first.txt", own);
      const to = (path: string) => () => ctx.switchSession(path);
      await attempt("other", to(readFileSync("first.txt", "utf8")));
      await attempt("shell", to("@@home@@/.bash_aliases"));
      await attempt("outside", to("@@outside@@/x.jsonl"));
      await attempt("hook", to(".git/hooks/post-merge"));
      await attempt("linked", to("link/x.jsonl"));
      await attempt("back", () => ctx.newSession({ withSession: (now: any) => now.switchSession(own) }));
    },
  });
