//! Environment variables of programs, and their effect.
//!
//! A program, and whatever it runs, may use a variable in any way: `RM` is the program that `make clean` runs. So a variable is
//! part of the prompt, unless it is known to be harmless or is the host's own. Some variables make the loader, a shell or nearly
//! any program run other code; a grant of all arguments does not cover them.

use pijs_programs::is_plain_word;
use pijs_programs::variables::{is_harmless, steers};
use pijs_protocol::guard;
use pijs_redact::is_secret_key;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The effect of a variable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VariableEffect {
    /// The variable affects output only, or is the host's own.
    Harmless,
    /// The effect depends on the program.
    Open,
    /// The variable selects code that a program loads or runs, or a server that it contacts.
    Steering,
}

/// One variable of a program that a call starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Variable<'a> {
    /// Name of the variable.
    pub name: &'a str,
    /// Value of the variable.
    pub value: &'a str,
    /// Effect of the variable.
    pub effect: VariableEffect,
}

/// Maximum length of a value in a prompt, in characters.
const MAX_SHOWN_CHARS: usize = 300;
/// Maximum length of a value in a grant, in bytes.
const MAX_GRANT_BYTES: usize = 64;
/// Prefix of a digest that replaces a value.
const DIGEST_PREFIX: &str = "sha256:";

impl<'a> Variable<'a> {
    /// Classifies a variable by its name and value.
    pub fn new(command: &str, name: &'a str, value: &'a str) -> Self {
        let effect = if is_harmless(command, name, value) {
            VariableEffect::Harmless
        } else if steers(name) {
            VariableEffect::Steering
        } else {
            VariableEffect::Open
        };
        Self { name, value, effect }
    }

    /// Returns the value for display: truncated if it is long, hidden if it is a secret.
    pub fn shown_value(&self) -> String {
        if is_secret_key(self.name) && !self.names_place() {
            return format!("[secret, {}]", digest_of(self.value.as_bytes()));
        }
        let length = self.value.chars().count();
        if length <= MAX_SHOWN_CHARS {
            return format!("{:?}", self.value);
        }
        let start: String = self.value.chars().take(MAX_SHOWN_CHARS).collect();
        format!("{start:?}... ({} more characters, {})", length - MAX_SHOWN_CHARS, digest_of(self.value.as_bytes()))
    }

    /// Returns whether [`Variable::shown_value`] is the whole value. A hidden value may name a file, whose content can change.
    pub fn is_shown_whole(&self) -> bool {
        (!is_secret_key(self.name) || self.names_place()) && self.value.chars().count() <= MAX_SHOWN_CHARS
    }

    /// Returns whether the value is a program, file or folder rather than a secret: `RESTIC_PASSWORD_COMMAND`, `TOKEN_FILE`.
    fn names_place(&self) -> bool {
        let (name, value) = (self.name.to_ascii_uppercase(), self.value);
        // `tmp/settings.mk`, but not the end of a token with dots.
        let is_file =
            value.starts_with(['.', '/', '~']) || value.rsplit_once('.').is_some_and(|(_, end)| end.len() < 6);
        let is_named = ["_DIR", "_FILE", "_PATH"].iter().any(|end| name.ends_with(end));
        self.effect == VariableEffect::Steering || is_file || is_named
    }

    /// Returns the value for a grant: the text of a short word, otherwise its digest.
    pub(crate) fn kept_value(&self) -> String {
        let is_plain = is_plain_word(self.value)
            && self.value.len() <= MAX_GRANT_BYTES
            && !self.value.contains('=')
            && !self.value.starts_with(DIGEST_PREFIX)
            && !is_secret_key(self.name);
        if is_plain { self.value.to_owned() } else { digest_of(self.value.as_bytes()) }
    }
}

/// Returns `sha256:HEX`.
pub(crate) fn digest_of(bytes: &[u8]) -> String {
    format!("{DIGEST_PREFIX}{}", hex::encode(Sha256::digest(bytes)))
}

/// A variable pattern before a program in a grant: `RM=echo`, `NODE_ENV=*`, `PI_*=*`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct VariablePattern {
    name: String,
    /// Whether the name is a prefix.
    is_prefix: bool,
    /// Required value; `None` allows any value and a missing variable.
    value: Option<String>,
}

impl VariablePattern {
    /// Parses an assignment; returns `None` for any other word.
    pub(crate) fn parse(word: &str) -> Option<Self> {
        let (name, value) = word.split_once('=')?;
        let (name, is_prefix) = match name.strip_suffix('*') {
            Some(begin) => (begin, true),
            None => (name, false),
        };
        let is_name = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
            && !name.starts_with(|c: char| c.is_ascii_digit())
            && (is_prefix || !name.is_empty());
        let value = if value == "*" { None } else { Some(value.to_owned()) };
        (is_name && !(is_prefix && value.is_some())).then(|| Self { name: name.to_owned(), is_prefix, value })
    }

    /// Creates the pattern of exactly this variable.
    pub(crate) fn exactly(variable: &Variable<'_>) -> Self {
        Self { name: variable.name.to_owned(), is_prefix: false, value: Some(variable.kept_value()) }
    }

    /// Formats the pattern for the user.
    pub(crate) fn shown(&self) -> String {
        match (&self.value, self.is_prefix, self.name.as_str()) {
            (Some(value), ..) => format!("{}={value}", self.name),
            (None, true, "") => "any".to_owned(),
            (None, true, name) => format!("{name}*"),
            (None, false, name) => name.to_owned(),
        }
    }

    /// Returns whether the pattern names a variable that steers programs.
    pub(crate) fn is_steering(&self) -> bool {
        !self.is_prefix && steers(&self.name)
    }

    /// Returns whether the pattern allows a variable. Steering variables need their full name.
    pub(crate) fn permits(&self, variable: &Variable<'_>) -> bool {
        let is_named = if self.is_prefix {
            variable.effect != VariableEffect::Steering && variable.name.starts_with(&self.name)
        } else {
            variable.name == self.name
        };
        is_named && self.value.as_deref().is_none_or(|value| is_value(value, variable.value))
    }

    /// Returns whether a call has the variable that the pattern requires: a value in the pattern is part of the command.
    pub(crate) fn is_met(&self, variables: &[Variable<'_>]) -> bool {
        let Some(value) = &self.value else { return true };
        variables.iter().any(|variable| variable.name == self.name && is_value(value, variable.value))
    }
}

fn is_value(pattern: &str, value: &str) -> bool {
    // A digest is never a value itself: an extension could pass the digest that a grant shows.
    (pattern == value && !pattern.starts_with(DIGEST_PREFIX)) || pattern == digest_of(value.as_bytes())
}

/// Splits a command pattern into its leading assignments and its words.
pub(crate) fn split_assignments(pattern: &str) -> (Vec<VariablePattern>, Vec<&str>) {
    let words: Vec<&str> = pattern.split_whitespace().collect();
    let variables: Vec<VariablePattern> = words.iter().map_while(|word| VariablePattern::parse(word)).collect();
    let rest = words[variables.len()..].to_vec();
    (variables, rest)
}

/// The host's own variables, which programs may get unchanged.
#[derive(Debug, Clone, Default)]
pub(crate) struct HostVariables {
    variables: BTreeMap<String, String>,
    /// Folder of programs that pi downloads. pi's shell searches it first, and no extension can write to it.
    tools: PathBuf,
}

impl HostVariables {
    pub(crate) fn new(variables: BTreeMap<String, String>, agent_dir: &Path) -> Self {
        Self { variables, tools: agent_dir.join("bin") }
    }

    /// Returns whether a variable is the host's own, as with the usual idiom `{...process.env}`. Folders added to `PATH` have no
    /// effect, because the connector removes them.
    pub(crate) fn has(&self, name: &str, value: &str) -> bool {
        let own = self.variables.get(name).map(String::as_str);
        own == Some(value) || (name == "PATH" && (self.is_search_path(value) || self.is_in_search_path(value)))
    }

    /// Returns whether a `PATH` is the host's own, apart from pi's tools.
    pub(crate) fn is_search_path(&self, value: &str) -> bool {
        // Compared as text, because the program gets the text and may resolve a relative name or a link differently.
        let is_tools = |folder: &&str| match guard!(ExecToolsPath) {
            true => Path::new(folder) == self.tools,
            false => std::fs::canonicalize(folder).is_ok_and(|folder| folder == self.tools),
        };
        let own = self.search_path().split(':').filter(|folder| !folder.is_empty());
        value.split(':').filter(|folder| !is_tools(folder)).eq(own.filter(|folder| !is_tools(folder)))
    }

    /// Returns whether a `PATH` is the host's own with additional folders, as in `node_modules/.bin:$PATH`.
    fn is_in_search_path(&self, value: &str) -> bool {
        let mut given = value.split(':');
        let own = self.search_path();
        !own.is_empty() && own.split(':').all(|folder| given.any(|other| other == folder))
    }

    fn search_path(&self) -> &str {
        self.variables.get("PATH").map_or("", String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steering_variables_are_recognised_in_any_case() {
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
            "RESTIC_PASSWORD_COMMAND",
            "BORG_PASSCOMMAND",
            "CARGO_REGISTRY_CREDENTIAL_PROVIDER",
            "ESBUILD_BINARY_PATH",
            "TS_NODE_REQUIRE",
            "PYTEST_PLUGINS",
            "RSYNC_CONNECT_PROG",
            "PUPPETEER_EXECUTABLE_PATH",
            "npm_execpath",
        ] {
            assert_eq!(Variable::new("make", name, "x").effect, VariableEffect::Steering, "{name}");
        }
        for name in
            ["FOO", "RM", "CFLAGS", "PREFIX", "PATHS", "CMAKE_BUILD_TYPE", "XDG_RUNTIME_DIR", "no_proxy", "lang"]
        {
            assert_eq!(Variable::new("make", name, "1").effect, VariableEffect::Open, "{name}");
        }
        for name in ["LANG", "LC_ALL", "CI", "NO_COLOR", "TERM", "CARGO_TERM_COLOR", "COLUMNS"] {
            assert_eq!(Variable::new("make", name, "1").effect, VariableEffect::Harmless, "{name}");
        }
        assert_eq!(Variable::new("git", "GIT_AUTHOR_NAME", "A B").effect, VariableEffect::Harmless);
        assert_eq!(Variable::new("make", "GIT_AUTHOR_NAME", "A B").effect, VariableEffect::Open);
    }

    #[test]
    fn path_may_only_gain_the_tools_of_pi() {
        let host = |path: &[(&str, &str)]| {
            let variables = path.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
            HostVariables::new(variables, Path::new("/home/me/.pi/agent"))
        };
        let own = host(&[("PATH", "/usr/bin:/bin")]);
        for (value, is_own) in [
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
            assert_eq!(own.is_search_path(value), is_own, "{value}");
        }
        for (value, adds) in [
            ("/project/node_modules/.bin:/usr/bin:/bin", true),
            ("/usr/bin:/x:/bin:/y", true),
            ("/bin:/usr/bin", false),
            ("/usr/bin", false),
            ("/evil", false),
            ("", false),
        ] {
            assert_eq!(own.is_in_search_path(value), adds, "{value}");
        }
        assert!(!host(&[]).has("PATH", "/evil"), "nothing of its own");
    }

    #[test]
    fn a_secret_is_never_shown_and_a_long_value_says_how_long_it_is() {
        let shown = |name: &'static str, value: &str| Variable::new("make", name, value).shown_value();
        assert_eq!(shown("RM", "echo x"), "\"echo x\"");
        assert!(!shown("API_TOKEN", "abcdefgh").contains("abcdefgh"));
        for name in ["CARGO_REGISTRY_CREDENTIAL_PROVIDER", "ANSIBLE_VAULT_PASSWORD_FILE", "MY_SECRET_COMMAND"] {
            assert_eq!(shown(name, "/project/notes"), "\"/project/notes\"", "{name}");
        }
        assert!(shown("X", &"y".repeat(1000)).contains("... (700 more characters, sha256:"));
    }

    #[test]
    fn assignments_precede_a_program() {
        let (variables, words) = split_assignments("RM=echo PI_*=* make clean X=1");
        assert_eq!(variables.len(), 2);
        assert_eq!(words, ["make", "clean", "X=1"]);
        for word in ["make", "./a=b", "=x", "1A=x", "A-B=x", "A*=x"] {
            assert_eq!(VariablePattern::parse(word), None, "{word}");
        }
    }
}
