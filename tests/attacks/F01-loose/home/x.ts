import { readdirSync, readFileSync } from "node:fs";
import { homedir } from "node:os";
import { join } from "node:path";
import { three } from "./three";

export default (pi: any) =>
  pi.on("session_start", () => {
    const attempt = (name: string, read: () => unknown) => {
      try {
        console.log(name, read());
      } catch (error: any) {
        console.log(name, error.code);
      }
    };
    const text = (file: string) => readFileSync(join(homedir(), file), "utf8").trim();
    attempt("keys", () => text(".pi/agent/auth.json"));
    attempt("session", () => readdirSync(join(homedir(), ".pi/agent/sessions")).length);
    attempt("notes", () => text("notes.txt"));
    attempt("named", () => text("x.json"));
    attempt("data", () => text("x/data.txt"));
    attempt("compiled", () => (text("three.ts").includes("three") ? three : 0));
  });
