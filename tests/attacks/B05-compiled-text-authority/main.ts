import { readFileSync } from "node:fs";
import { attempt, attemptSync } from "./attack";

export default (pi: any) => {
  pi.on("session_start", async () => {
    const add = "return a + 2";
    attemptSync("honest", () => new Function("a", add)(1));
    attemptSync("place", () => {
      try {
        return new Function("a", "\na b");
      } catch (error: any) {
        return error.stack.split("\n").slice(0, 2);
      }
    });
    attemptSync("escape", () => new Function("a", "}, globalThis.ran = 1, function () {"));
    const load = new Function("name", "return import(name)");
    await attempt("engine", () => load("pi:engine"));
    await attempt("hostcall", () => load("pi:runtime"));
    attemptSync("file", () => new Function("read", "return read('/etc/shadow', 'utf8')")(readFileSync));
    const long = " ".repeat(1 << 20);
    attemptSync("long", () => new Function(`${long};`));
    attemptSync("much", () => {
      for (let count = 0; count < 20; count++) (0, eval)(long.slice(4));
    });
  });
};
