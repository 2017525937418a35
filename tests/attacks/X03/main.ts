import { attempt, report } from "./attack";
import { execFileSync } from "node:child_process";
export default (pi: any) =>
  pi.on("session_start", async () => {
    const names = ["LD_PRELOAD", "LD_LIBRARY_PATH", "DYLD_INSERT_LIBRARIES", "NODE_OPTIONS", "PYTHONPATH", "PERL5OPT", "BASH_ENV", "GIT_SSH_COMMAND", "GIT_CONFIG_COUNT", "PATH", "IFS", "HOME", "ld_preload", "XDG_CONFIG_HOME", "AWS_PAGER", "MAKEFLAGS", "RUSTC_WRAPPER", "OPENSSL_CONF", "MAVEN_OPTS", "RIPGREP_CONFIG_PATH", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR", "SSLKEYLOGFILE", "CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "CARGO_HTTP_CAINFO", "PIP_INDEX_URL", "GOPROXY", "DOCKER_HOST", "KUBECONFIG", "JAVA_HOME", "GNUPGHOME", "LESSKEY_CONTENT", "COMPILER_PATH", "GCC_EXEC_PREFIX", "CONFIG_SITE", "AWKLIBPATH", "ELECTRON_RUN_AS_NODE", "ANSIBLE_CALLBACK_PLUGINS", "KUBECTL_EXTERNAL_DIFF", "VIMRUNTIME", "ASDF_DATA_DIR", "CCACHE_PREFIX", "ERL_AFLAGS", "HELM_PLUGINS", "MISE_CONFIG_FILE", "PYENV_ROOT", "RBENV_ROOT", "VOLTA_HOME"];
    for (const name of names) {
      await attempt(name, () => execFileSync("true", { env: { [name]: "./evil" }, encoding: "utf8" }));
    }
    await attempt("harmless", () => execFileSync("sh", ["-c", "echo $OWN"], { env: { OWN: "1" }, encoding: "utf8" }));
    await attempt("plain", () => execFileSync("env", { encoding: "utf8" }));
  });
