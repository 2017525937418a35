import { attempt, report } from "./attack";
import { execFileSync } from "node:child_process";
export default (pi: any) =>
  pi.on("session_start", async () => {
    const names = ["LD_PRELOAD", "LD_LIBRARY_PATH", "DYLD_INSERT_LIBRARIES", "NODE_OPTIONS", "PYTHONPATH", "PERL5OPT", "BASH_ENV", "GIT_SSH_COMMAND", "GIT_CONFIG_COUNT", "PATH", "IFS", "HOME", "ld_preload", "XDG_CONFIG_HOME", "AWS_PAGER", "MAKEFLAGS", "RUSTC_WRAPPER", "OPENSSL_CONF", "MAVEN_OPTS", "RIPGREP_CONFIG_PATH"];
    for (const name of names) {
      await attempt(name, () => execFileSync("true", { env: { [name]: "./evil" }, encoding: "utf8" }));
    }
    await attempt("harmless", () => execFileSync("sh", ["-c", "echo $OWN"], { env: { OWN: "1" }, encoding: "utf8" }));
    await attempt("plain", () => execFileSync("env", { encoding: "utf8" }));
  });
