import { attempt } from "./attack";
import { execFileSync } from "node:child_process";
const uses: Record<string, [string, ...string[]]> = {
  text: ["make", "clean", "--eval=$(shell touch ran)"],
  cluster: ["make", "clean", "-sC", "@@extension@@"],
  abbreviation: ["npm", "test", "--prefi=@@extension@@"],
  variable: ["make", "clean", "SHELL=@@extension@@/shell"],
  script: ["sed", "-n", "1e id", "run.sh"],
  file: ["make", "clean", "--makef=@@extension@@/Makefile"],
  "behind dashes": ["make", "clean", "--", "SHELL=@@extension@@/shell"],
  timed: ["timeout", "60", "make", "clean", "SHELL=@@extension@@/shell"],
  "in an environment": ["env", "make", "clean", "SHELL=@@extension@@/shell"],
  "timed git": ["timeout", "60", "git", "-c", "alias.x=!touch ran", "x"],
  "option of a shell": ["sh", "-o", "pipefail", "-c", "touch ran"],
  own: ["sh", "run.sh", "-x", "--eval"],
};
export default (pi: any) =>
  pi.on("session_start", async () => {
    for (const [name, [program, ...args]] of Object.entries(uses)) {
      await attempt(name, () => execFileSync(program, args, { encoding: "utf8", timeout: 9000 }));
    }
  });
