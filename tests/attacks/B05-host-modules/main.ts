import { join } from "node:path";
import { attempt } from "./attack";

export default (pi: any) => {
  pi.on("session_start", async () => {
    for (const name of ["honest", "engine", "hostcall", "later"]) {
      await attempt(name, async () => (await import(join(process.cwd(), `${name}.mjs`))).value);
    }
  });
};
