import { attempt } from "./attack";
import * as fs from "node:fs";

const home = "@@home@@";
const ways: Record<string, () => unknown> = {
  named: () => fs.readFileSync(home + "/first/pijs/install.key").length,
  linked: () => fs.readFileSync(home + "/second/pijs/install.key").length,
  real: () => fs.readFileSync("@@outside@@/data/pijs/install.key").length,
  unlinked: () => fs.unlinkSync(home + "/first"),
  moved: () => fs.renameSync(home + "/second", home + "/third"),
  exchanged: () => {
    fs.mkdirSync(home + "/evil/pijs", { recursive: true });
    fs.renameSync(home + "/evil", home + "/second");
  },
  second: () => fs.symlinkSync("evil", home + "/second"),
  data: () => fs.renameSync("@@outside@@/data", "@@outside@@/other"),
};

export default (pi: any) =>
  pi.on("session_start", async () => {
    for (const [name, way] of Object.entries(ways)) await attempt(name, way);
  });
