//! What programs see of the environment (rule R51): an allow list, and what the caller adds to it.

use super::ExecOptions;
use super::program::Program;
use pijs_hostcall::places::normal;
use pijs_hostcall::programs::name_of;
use pijs_hostcall::vocabulary::PLAIN_ENV;
use pijs_hostcall::{Access, Reason, Request};
use pijs_protocol::{HostcallError, guard};
use std::collections::BTreeMap;
use std::path::Path;

/// Programs that pi fetched for itself, below the agent folder.
const TOOLS: &str = "bin";

/// Harmless although their beginning is not: they say how a program speaks and reads its arguments, who is named as an
/// author, and that less configuration counts.
const HARMLESS: &[&str] = &[
    "CARGO_INCREMENTAL",
    "CARGO_NET_OFFLINE",
    "CARGO_TARGET_DIR",
    "CARGO_TERM_COLOR",
    "CARGO_TERM_PROGRESS_WHEN",
    "CARGO_TERM_QUIET",
    "CARGO_TERM_VERBOSE",
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
    "NODE_DISABLE_COLORS",
    "NODE_ENV",
    "NODE_NO_WARNINGS",
    "NO_PROXY",
    "PIP_DISABLE_PIP_VERSION_CHECK",
    "PIP_NO_COLOR",
    "PIP_NO_INPUT",
    "PYTHONDONTWRITEBYTECODE",
    "PYTHONUNBUFFERED",
    "PYTHONUTF8",
    "UV_NO_PROGRESS",
    "UV_OFFLINE",
];

/// Programs that only hand on what they are given, or do nothing: in the place of a pager or an editor they keep a
/// program from waiting for a person.
const IDLE_PROGRAMS: &[&str] = &[":", "cat", "echo", "false", "true"];

/// Variables that make the loader, a shell or a program run something else than it was asked to, or speak to somebody else:
/// through another proxy, by other certificates, with what it keeps of its user's credentials.
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
    "CLASSPATH",
    "CMAKE_TOOLCHAIN_FILE",
    "COMPILER_PATH",
    "CONFIG_SITE",
    "COREPACK_HOME",
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
    "LOCPATH",
    "LUA_INIT",
    "MAKEFILES",
    "MAKEFLAGS",
    "MANPAGER",
    "MAVEN_ARGS",
    "MORE",
    "MYSQL_HOME",
    "NIX_CONFIG",
    "NIX_PATH",
    "NIX_USER_CONF_FILES",
    "NLSPATH",
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
    "RESOLV_HOST_CONF",
    "RIPGREP_CONFIG_PATH",
    "RUSTC",
    "RUSTDOC",
    "RUSTDOCFLAGS",
    "RUSTFLAGS",
    "RUSTUP_HOME",
    "RUSTUP_TOOLCHAIN",
    "R_ENVIRON",
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
    "TERMCAP",
    "TERMINFO",
    "TERMINFO_DIRS",
    "TEXMFCNF",
    "TF_CLI_CONFIG_FILE",
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

/// Beginnings of such names.
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

/// Ends of such names: what a family of programs calls the program that it starts, the options that it adds, and the
/// folders that it loads from; whom it speaks through, and whom it believes.
const STEERING_ENDS: &[&str] = &[
    "OPT",
    "_ASKPASS",
    "_BROWSER",
    "_CA_BUNDLE",
    "_COMMAND",
    "_EDITOR",
    "_LAUNCHER",
    "_LINKER",
    "_LOAD_PATH",
    "_OPTIONS",
    "_OPTS",
    "_PAGER",
    "_PLUGIN_PATH",
    "_PROXY",
    "_RSH",
    "_RUNNER",
    "_WRAPPER",
];

/// Variables that steer what a program loads or runs; never taken from an extension. Letter case
/// does not matter: some programs look for both.
fn steers_programs(name: &str) -> bool {
    let upper = name.to_ascii_uppercase();
    !HARMLESS.contains(&upper.as_str())
        && (STEERING.contains(&upper.as_str())
            || STEERING_BEGINNINGS.iter().any(|begin| upper.starts_with(begin))
            || STEERING_ENDS.iter().any(|end| upper.ends_with(end)))
}

/// Whether a variable that names a program names none, or an idle one.
fn is_idle(name: &str, value: &str) -> bool {
    let name = name.to_ascii_uppercase();
    let names_program = ["ASKPASS", "EDITOR", "PAGER", "VISUAL"].iter().any(|end| name.ends_with(end));
    names_program && (value.is_empty() || IDLE_PROGRAMS.contains(&value))
}

/// Whether a variable gives git an index in a place where the caller may write: git replaces that file.
fn is_own_index(name: &str, value: &str, request: &Request) -> bool {
    let path = Path::new(value);
    let (Some(folder), Some(file), "GIT_INDEX_FILE") = (path.parent(), path.file_name(), name) else { return false };
    let Ok(folder) = std::fs::canonicalize(folder) else { return false };
    let may_write = |path: &Path| request.permit.path(Access::Write, path).is_ok();
    path.is_absolute() && may_write(&normal(path, Path::new(""))) && may_write(&folder.join(file))
}

/// Whether a search path is the host's own with nothing added but pi's folder of tools, which pi's shell puts
/// first and no extension can write to.
fn is_own_search_path(value: &str, options: &ExecOptions, agent_dir: &Path) -> bool {
    let tools = agent_dir.join(TOOLS);
    let is_tools =
        |folder: &&str| Path::new(folder) == tools || std::fs::canonicalize(folder).is_ok_and(|f| f == tools);
    let own = options.env.get("PATH").map_or("", String::as_str).split(':').filter(|folder| !folder.is_empty());
    value.split(':').filter(|folder| !is_tools(folder)).eq(own.filter(|folder| !is_tools(folder)))
}

/// Whether a search path is the host's own with folders added: what `node_modules/.bin:$PATH` comes to. The folders
/// added are left out, so that the program starts and finds what the host would find.
fn adds_to_own(value: &str, options: &ExecOptions) -> bool {
    let mut given = value.split(':');
    let own = options.env.get("PATH").map_or("", String::as_str);
    !own.is_empty() && own.split(':').all(|folder| given.any(|other| other == folder))
}

/// The part of the host's environment that programs see.
pub(super) fn visible(options: &ExecOptions) -> BTreeMap<String, String> {
    let visible =
        |name: &str| PLAIN_ENV.contains(&name) || name.starts_with("LC_") || name == "TZ" || name == "LOGNAME";
    let all = !guard::is_up("exec.env");
    options.env.iter().filter(|(name, _)| all || visible(name)).map(|(n, v)| (n.clone(), v.clone())).collect()
}

/// The allow list, or what the caller gave in its place.
pub(super) fn of(request: &Request, options: &ExecOptions) -> Result<BTreeMap<String, String>, HostcallError> {
    let Some(given) = request.params.get("env").filter(|env| !env.is_null()) else {
        return Ok(visible(options));
    };
    let given = given.as_object().ok_or_else(|| HostcallError::invalid("schema", "exec: `env` is not an object"))?;
    // Given by nobody for this program: it is what the extension's own `process.env` has come to.
    let is_own = crate::params::flag(request, "inherits")?;
    let mut env = BTreeMap::new();
    for (name, value) in given {
        let Some(value) = value.as_str().filter(|value| !value.contains('\0')) else {
            return Err(HostcallError::invalid("schema", format!("exec: `env.{name}` is not a string")));
        };
        if name.is_empty() || name.contains(['=', '\0']) {
            return Err(HostcallError::invalid("schema", format!("exec: {name:?} is not a variable's name")));
        }
        // What the host itself has may be handed on: `{...process.env}` is the usual idiom.
        let inherited = options.env.get(name).map(String::as_str) == Some(value)
            || (name == "PATH" && is_own_search_path(value, options, &request.permit.places().agent_dir));
        if guard::is_up("exec.env") && name == "PATH" && !inherited && adds_to_own(value, options) {
            // The host's own is put in below.
            continue;
        }
        if guard::is_up("exec.env") && steers_programs(name) && !inherited {
            if is_idle(name, value) || is_own_index(name, value, request) {
                env.insert(name.clone(), value.to_owned());
                continue;
            }
            if value.is_empty() || is_own {
                // Without a value it is as if it were not there; what was not meant for this program is left out.
                continue;
            }
            return Err(Reason::Scope.refusal("exec", "exec", &format!("environment variable {name}")));
        }
        env.insert(name.clone(), value.to_owned());
    }
    // A program without a search path finds nothing it needs.
    for name in ["PATH", "HOME"] {
        if let (false, Some(value)) = (env.contains_key(name), options.env.get(name)) {
            env.insert(name.to_owned(), value.clone());
        }
    }
    Ok(env)
}

/// What git is told besides, for one call of it.
///
/// It takes a folder for a repository only where it is called `.git`, or named: any other that looks like one counts for
/// it, too, with a configuration that says which programs run, and whoever may write can make one. And a plain `git push`
/// reaches no repository of this machine: git runs the hooks of the one that it pushes to, which may be such a folder.
pub(super) fn add_for(program: &Program, request: &Request, args: &[String], env: &mut BTreeMap<String, String>) {
    let is_git = |path: &Path| path.file_name().is_some_and(|name| name_of(&name.to_string_lossy()) == "git");
    if !(is_git(&program.file) || is_git(&program.found)) {
        return;
    }
    let mut add = |key: &str, value: &str| {
        let count = env.get("GIT_CONFIG_COUNT").and_then(|count| count.parse::<u32>().ok()).unwrap_or(0);
        env.insert("GIT_CONFIG_COUNT".to_owned(), (count + 1).to_string());
        env.insert(format!("GIT_CONFIG_KEY_{count}"), key.to_owned());
        env.insert(format!("GIT_CONFIG_VALUE_{count}"), value.to_owned());
    };
    if guard::is_up("exec.bare-repository") {
        add("safe.bareRepository", "explicit");
    }
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let command = request.params.get("command").and_then(serde_json::Value::as_str).unwrap_or_default();
    if args.contains(&"push") && !request.permit.means_program(command, &args) && guard::is_up("exec.local-push") {
        add("protocol.file.allow", "never");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_steers_programs_is_known_in_every_letter_case() {
        for name in [
            "LD_PRELOAD",
            "ld_library_path",
            "DYLD_INSERT_LIBRARIES",
            "NODE_OPTIONS",
            "PYTHONPATH",
            "PERL5OPT",
            "RUBYOPT",
            "BASH_ENV",
            "BASH_FUNC_ls%%",
            "GIT_SSH_COMMAND",
            "GIT_CONFIG_COUNT",
            "JAVA_TOOL_OPTIONS",
            "npm_config_script_shell",
            "PATH",
            "IFS",
            "HOME",
            "PAGER",
            "AWS_PAGER",
            "XDG_CONFIG_HOME",
            "RIPGREP_CONFIG_PATH",
            "RUSTC_WRAPPER",
            "CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER",
            "MAKEFLAGS",
            "MAVEN_OPTS",
            "OPENSSL_CONF",
            "FZF_DEFAULT_COMMAND",
            "RSYNC_RSH",
            "SUDO_ASKPASS",
            "GOFLAGS",
            "CURL_HOME",
            "SSH_SK_PROVIDER",
            "HTTPS_PROXY",
            "all_proxy",
            "SSL_CERT_FILE",
            "SSLKEYLOGFILE",
            "CURL_CA_BUNDLE",
            "CARGO_HTTP_CAINFO",
            "PIP_INDEX_URL",
            "GOPROXY",
            "DOCKER_HOST",
            "GNUPGHOME",
            "LESSKEY_CONTENT",
            "COMPILER_PATH",
            "CONFIG_SITE",
            "ELECTRON_RUN_AS_NODE",
            "ANSIBLE_CALLBACK_PLUGINS",
            "CMAKE_CXX_COMPILER_LAUNCHER",
            "KUBECTL_EXTERNAL_DIFF",
            "SYSTEM_WGETRC",
            "GOCACHEPROG",
            "JJ_CONFIG",
            "RUSTUP_DIST_SERVER",
            "SASL_PATH",
            "GDK_PIXBUF_MODULE_FILE",
            "MAGICK_CONFIGURE_PATH",
            "LIBMYSQL_PLUGIN_DIR",
            "LESSGLOBALTAGS",
            "TEXMFCNF",
            "PYENV_ROOT",
            "asdf_data_dir",
            "MISE_CONFIG_FILE",
            "VOLTA_HOME",
            "CCACHE_PREFIX",
            "ERL_AFLAGS",
            "HELM_PLUGINS",
        ] {
            assert!(steers_programs(name), "{name}");
        }
        for name in [
            "FOO",
            "NODE_ENV",
            "GIT_TERMINAL_PROMPT",
            "LANG",
            "CI",
            "NO_COLOR",
            "PATHS",
            "CARGO_TERM_COLOR",
            "CMAKE_BUILD_TYPE",
            "XDG_RUNTIME_DIR",
            "no_proxy",
        ] {
            assert!(!steers_programs(name), "{name}");
        }
    }

    #[test]
    fn an_idle_program_steers_nothing() {
        for (name, value) in [
            ("PAGER", ""),
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
            ("GIT_SSH_COMMAND", "true"),
        ] {
            assert!(!is_idle(name, value), "{name}={value}");
        }
    }

    #[test]
    fn a_search_path_may_only_gain_pis_own_tools() {
        let options = ExecOptions::new(BTreeMap::from([("PATH".to_owned(), "/usr/bin:/bin".to_owned())]));
        let agent = Path::new("/home/me/.pi/agent");
        for (value, own) in [
            ("/usr/bin:/bin", true),
            ("/home/me/.pi/agent/bin:/usr/bin:/bin", true),
            ("/usr/bin:/bin:/home/me/.pi/agent/bin", true),
            ("/bin:/usr/bin", false),
            ("/usr/bin", false),
            ("/home/me/.pi/agent:/usr/bin:/bin", false),
            ("/home/me/.pi/agent/bin/../x:/usr/bin:/bin", false),
            (":/usr/bin:/bin", false),
            (".:/usr/bin:/bin", false),
        ] {
            assert_eq!(is_own_search_path(value, &options, agent), own, "{value}");
        }
        for (value, adds) in [
            ("/project/node_modules/.bin:/usr/bin:/bin", true),
            ("/usr/bin:/x:/bin:/y", true),
            ("/bin:/usr/bin", false),
            ("/usr/bin", false),
            ("/evil", false),
            ("", false),
        ] {
            assert_eq!(adds_to_own(value, &options), adds, "{value}");
        }
        assert!(!adds_to_own("/evil", &ExecOptions::new(BTreeMap::new())), "nothing of its own");
    }
}
