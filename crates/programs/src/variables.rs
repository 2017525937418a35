//! Lists environment variables that steer programs, and harmless ones, by name and value.
//!
//! A steering variable selects code that a program loads or runs, or a server that it contacts. The effect of a variable in
//! neither table depends on the program.

use crate::name_of;

/// Harmless values of a variable. Other values may end up in a command line of a build file.
enum HarmlessValues {
    /// `1`, `true`, `never`, or empty.
    Flag,
    Number,
    /// A locale or a terminal name: not a path, and without characters that are special in a shell.
    Word,
    /// A time zone, which may contain slashes.
    Zone,
    OneOf(&'static [&'static str]),
}

/// Variables that are harmless for every program.
const HARMLESS: &[(&str, HarmlessValues)] = &[
    ("CARGO_INCREMENTAL", HarmlessValues::Flag),
    ("CARGO_NET_OFFLINE", HarmlessValues::Flag),
    ("CARGO_TERM_COLOR", HarmlessValues::Flag),
    ("CARGO_TERM_PROGRESS_WHEN", HarmlessValues::Flag),
    ("CARGO_TERM_QUIET", HarmlessValues::Flag),
    ("CARGO_TERM_VERBOSE", HarmlessValues::Flag),
    ("CI", HarmlessValues::Flag),
    ("CLICOLOR", HarmlessValues::Flag),
    ("CLICOLOR_FORCE", HarmlessValues::Flag),
    ("COLORTERM", HarmlessValues::Word),
    ("COLUMNS", HarmlessValues::Number),
    ("FORCE_COLOR", HarmlessValues::Flag),
    ("LANG", HarmlessValues::Word),
    ("LINES", HarmlessValues::Number),
    ("NODE_DISABLE_COLORS", HarmlessValues::Flag),
    ("NODE_ENV", HarmlessValues::OneOf(&["development", "production", "test"])),
    ("NODE_NO_WARNINGS", HarmlessValues::Flag),
    ("NO_COLOR", HarmlessValues::Flag),
    ("PIP_DISABLE_PIP_VERSION_CHECK", HarmlessValues::Flag),
    ("PIP_NO_COLOR", HarmlessValues::Flag),
    ("PIP_NO_INPUT", HarmlessValues::Flag),
    ("PYTHONDONTWRITEBYTECODE", HarmlessValues::Flag),
    ("PYTHONUNBUFFERED", HarmlessValues::Flag),
    ("PYTHONUTF8", HarmlessValues::Flag),
    ("TERM", HarmlessValues::Word),
    ("TZ", HarmlessValues::Zone),
    ("UV_NO_PROGRESS", HarmlessValues::Flag),
    ("UV_OFFLINE", HarmlessValues::Flag),
];

/// Variables that are harmless for git: the author's name, and fewer prompts and writes.
const HARMLESS_FOR_GIT: &[&str] = &[
    "GIT_AUTHOR_DATE",
    "GIT_AUTHOR_EMAIL",
    "GIT_AUTHOR_NAME",
    "GIT_COMMITTER_DATE",
    "GIT_COMMITTER_EMAIL",
    "GIT_COMMITTER_NAME",
    "GIT_CONFIG_NOSYSTEM",
    "GIT_LITERAL_PATHSPECS",
    "GIT_MERGE_AUTOEDIT",
    "GIT_OPTIONAL_LOCKS",
    "GIT_TERMINAL_PROMPT",
    "GIT_TEST_DISALLOW_ABBREVIATED_OPTIONS",
];

/// Variables that are harmless only for some values, but do not steer programs: a grant of all arguments covers them.
const NOT_STEERING: &[&str] = &["CARGO_TARGET_DIR", "NO_PROXY"];

/// Programs that copy their input or do nothing: as a pager or an editor they keep another program from waiting for the user.
const IDLE_PROGRAMS: &[&str] = &[":", "cat", "echo", "false", "true"];

/// Returns whether a variable with this value is harmless for a program.
pub fn is_harmless(command: &str, name: &str, value: &str) -> bool {
    let values = match HARMLESS.iter().find(|(known, _)| *known == name) {
        Some((_, values)) => values,
        None if name.starts_with("LC_") => &HarmlessValues::Word,
        None => {
            let is_git = name_of(command).eq_ignore_ascii_case("git");
            let is_line = !value.contains(char::is_control);
            return is_idle(name, value) || (is_git && HARMLESS_FOR_GIT.contains(&name) && is_line);
        }
    };
    let is_word = |c: char| c.is_ascii_alphanumeric() || "_.,@+-".contains(c);
    match values {
        HarmlessValues::Flag => value.len() <= 10 && value.chars().all(|c| c.is_ascii_alphanumeric()),
        HarmlessValues::Number => value.len() <= 10 && value.bytes().all(|byte| byte.is_ascii_digit()),
        HarmlessValues::Word => value.len() <= 64 && value.chars().all(is_word),
        HarmlessValues::Zone => {
            let is_below = !value.starts_with('/') && !value.contains("..");
            value.len() <= 64 && is_below && value.chars().all(|c| is_word(c) || c == '/')
        }
        HarmlessValues::OneOf(known) => known.contains(&value),
    }
}

/// Returns whether a variable names an idle program.
fn is_idle(name: &str, value: &str) -> bool {
    let name = name.to_ascii_uppercase();
    let names_program = ["ASKPASS", "EDITOR", "PAGER", "VISUAL"].iter().any(|end| name.ends_with(end));
    names_program && IDLE_PROGRAMS.contains(&value)
}

/// Variables that make the loader, a shell or a program run other code, or contact another server: through a proxy, with other
/// certificates, with stored credentials.
const STEERING: &[&str] = &[
    "AR",
    "AS",
    "AWKLIBPATH",
    "AWKPATH",
    "AWS_CONFIG_FILE",
    "AWS_SHARED_CREDENTIALS_FILE",
    "BASHOPTS",
    "BASH_ENV",
    "BAT_CONFIG_DIR",
    "BAT_CONFIG_PATH",
    "BROWSER",
    "CARGO",
    "CC",
    "CDPATH",
    "CHROME_PATH",
    "CLASSPATH",
    "CMAKE_TOOLCHAIN_FILE",
    "COMPILER_PATH",
    "CONFIG_SITE",
    "COREPACK_HOME",
    "COR_PROFILER_PATH",
    "CPATH",
    "CPLUS_INCLUDE_PATH",
    "CPP",
    "CURL_HOME",
    "CXX",
    "C_INCLUDE_PATH",
    "DOCKER_CONFIG",
    "DOCKER_CONTEXT",
    "DOCKER_HOST",
    "EDITOR",
    "ELECTRON_RUN_AS_NODE",
    "EMACSLOADPATH",
    "ENV",
    "ERL_FLAGS",
    "ERL_LIBS",
    "EXINIT",
    "FLASK_APP",
    "FPATH",
    "GCC_EXEC_PREFIX",
    "GCONV_PATH",
    "GDK_PIXBUF_MODULE_FILE",
    "GH_CONFIG_DIR",
    "GH_HOST",
    "GH_PATH",
    "GLOBIGNORE",
    "GNUMAKEFLAGS",
    "GNUPGHOME",
    "GOAUTH",
    "GOBIN",
    "GOCACHEPROG",
    "GOENV",
    "GOFLAGS",
    "GOINSECURE",
    "GONOSUMCHECK",
    "GONOSUMDB",
    "GOPATH",
    "GOPRIVATE",
    "GOPROXY",
    "GOROOT",
    "GOSUMDB",
    "GOTOOLCHAIN",
    "GOVCS",
    "GRADLE_USER_HOME",
    "HGEDITOR",
    "HGMERGE",
    "HGRCPATH",
    "HOME",
    "HOSTALIASES",
    "IFS",
    "INPUTRC",
    "JAVA_HOME",
    "JJ_CONFIG",
    "KRB5_CONFIG",
    "KUBECONFIG",
    "KUBECTL_EXTERNAL_DIFF",
    "LATEXMKRC",
    "LD",
    "LESS",
    "LESSCLOSE",
    "LESSECHO",
    "LESSGLOBALTAGS",
    "LESSKEY",
    "LESSKEYIN",
    "LESSKEYIN_SYSTEM",
    "LESSKEY_CONTENT",
    "LESSKEY_SYSTEM",
    "LESSOPEN",
    "LIBMYSQL_PLUGINS",
    "LIBMYSQL_PLUGIN_DIR",
    "LIBRARY_PATH",
    "LLVM_CONFIG",
    "LOCPATH",
    "LUA_INIT",
    "MAKEFILES",
    "MAKEFLAGS",
    "MANPAGER",
    "MAVEN_ARGS",
    "MORE",
    "MPLBACKEND",
    "MYSQL_HOME",
    "NIX_CONFIG",
    "NIX_PATH",
    "NIX_USER_CONF_FILES",
    "NLSPATH",
    "NPM_EXECPATH",
    "PAGER",
    "PATH",
    "PGSERVICEFILE",
    "PGSYSCONFDIR",
    "PHPRC",
    "PHP_INI_SCAN_DIR",
    "PIP_CONFIG_FILE",
    "PKG_CONFIG",
    "PKG_CONFIG_LIBDIR",
    "PKG_CONFIG_PATH",
    "PROMPT_COMMAND",
    "PS4",
    "PSQLRC",
    "PYTEST_ADDOPTS",
    "PYTEST_PLUGINS",
    "RESOLV_HOST_CONF",
    "RIPGREP_CONFIG_PATH",
    "RUSTC",
    "RUSTDOC",
    "RUSTDOCFLAGS",
    "RUSTFLAGS",
    "RUSTUP_HOME",
    "RUSTUP_TOOLCHAIN",
    "R_ENVIRON",
    "R_LIBS",
    "R_PROFILE",
    "R_PROFILE_USER",
    "SASL_PATH",
    "SCREENRC",
    "SHELL",
    "SHELLOPTS",
    "SSH_SK_HELPER",
    "SSH_SK_PROVIDER",
    "SSLKEYLOGFILE",
    "SSL_CERT_DIR",
    "SSL_CERT_FILE",
    "SVN_SSH",
    "SYSTEMD_LESS",
    "SYSTEM_WGETRC",
    "TCLLIBPATH",
    "TERMCAP",
    "TERMINFO",
    "TERMINFO_DIRS",
    "TEXMFCNF",
    "TF_CLI_CONFIG_FILE",
    "TS_NODE_REQUIRE",
    "VAGRANT_VAGRANTFILE",
    "VIM",
    "VIMINIT",
    "VIMRUNTIME",
    "VISUAL",
    "WGETRC",
    "XDG_CONFIG_DIRS",
    "XDG_CONFIG_HOME",
    "XDG_DATA_DIRS",
    "XDG_DATA_HOME",
    "ZDOTDIR",
];

/// Prefixes of steering variables.
const STEERING_BEGINNINGS: &[&str] = &[
    "ANSIBLE_",
    "ASDF_",
    "AWS_ENDPOINT_URL",
    "BASH_FUNC_",
    "BUNDLE_",
    "BUN_",
    "CARGO_",
    "CCACHE_",
    "CLOUDSDK_",
    "CORECLR_",
    "DENO_",
    "DIRENV_",
    "DISTCC_",
    "DOTNET_",
    "DYLD_",
    "ERL_",
    "FNM_",
    "GDK_",
    "GEM_",
    "GIO_",
    "GIT_",
    "GLIBC_",
    "GOENV_",
    "GTK_",
    "HELM_",
    "JENV_",
    "JULIA_",
    "LD_",
    "LUA_",
    "MAGICK_",
    "MALLOC_",
    "MISE_",
    "NODENV_",
    "NODE_",
    "NPM_CONFIG_",
    "NVM_",
    "OPENSSL_",
    "PASSWORD_STORE_",
    "PERL",
    "PHPENV_",
    "PIP_",
    "PLENV_",
    "PROTO_",
    "PYENV_",
    "PYTHON",
    "QT_",
    "RBENV_",
    "RTX_",
    "RUBY",
    "RUSTUP_",
    "SCCACHE_",
    "TF_CLI_ARGS",
    "UV_",
    "VOLTA_",
    "YARN_",
];

/// Suffixes of steering variables. By convention such variables name a program to start, additional options, folders to load
/// from, proxies, or certificates.
const STEERING_ENDS: &[&str] = &[
    "OPT",
    "PASSCOMMAND",
    "_ASKPASS",
    "_BINARY",
    "_BINARY_PATH",
    "_BROWSER",
    "_CA_BUNDLE",
    "_CMD",
    "_COMMAND",
    "_CREDENTIAL_PROVIDER",
    "_EDITOR",
    "_ENGINE_LIBRARY",
    "_EXEC",
    "_EXECUTABLE",
    "_EXECUTABLE_PATH",
    "_HELPER",
    "_HOOK",
    "_LAUNCHER",
    "_LIBRARY_PATH",
    "_LINKER",
    "_LOAD_PATH",
    "_OPTIONS",
    "_OPTS",
    "_PAGER",
    "_PLUGINS",
    "_PLUGIN_PATH",
    "_PRELOAD",
    "_PROG",
    "_PROGRAM",
    "_PROXY",
    "_REQUIRE",
    "_RSH",
    "_RUNNER",
    "_SCRIPT",
    "_WRAPPER",
];

/// Returns whether a variable steers programs. Ignores ASCII case, because some programs read both cases.
pub fn steers(name: &str) -> bool {
    let upper = name.to_ascii_uppercase();
    let is_known = HARMLESS.iter().any(|(known, _)| *known == upper)
        || HARMLESS_FOR_GIT.contains(&upper.as_str())
        || NOT_STEERING.contains(&upper.as_str());
    !is_known
        && (STEERING.contains(&upper.as_str())
            || STEERING_BEGINNINGS.iter().any(|begin| upper.starts_with(begin))
            || STEERING_ENDS.iter().any(|end| upper.ends_with(end)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_idle_program_is_harmless() {
        for (name, value) in [
            ("GIT_PAGER", "cat"),
            ("pager", "cat"),
            ("GIT_SEQUENCE_EDITOR", ":"),
            ("VISUAL", "true"),
            ("GIT_ASKPASS", "echo"),
        ] {
            assert!(is_idle(name, value), "{name}={value}");
        }
        for (name, value) in [
            ("GIT_PAGER", "cat; id"),
            ("GIT_PAGER", "./cat"),
            ("LD_PRELOAD", "cat"),
            ("PATH", ""),
            ("PAGER", ""),
            ("GIT_SSH_COMMAND", "true"),
        ] {
            assert!(!is_idle(name, value), "{name}={value}");
        }
    }
}
