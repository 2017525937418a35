//! The command line.
//!
//! Options that clap does not know are flags of extensions (`pi.registerFlag`); they are removed before parsing ([`flags`]), and
//! checked once the extensions have registered their flags.

mod config;
mod flags;
mod similar;
pub(crate) mod values;

pub(crate) use flags::{ExtensionFlag, split_extension_flags};
pub(crate) use similar::{misspelt_command, misspelt_help, similar_option};

use crate::inspect::InspectArgs;
use crate::rules::{RuleArgs, RulesCommand};
use crate::rummy::RummyCommand;
use crate::tape::{ReplayArgs, TapeCommand};
use clap::{Args, Parser, Subcommand, ValueEnum};
use pijs_conformance::drive::DriveArgs;
use pijs_conformance::snapshot::SnapshotArgs;
use pijs_host::PiProfile;
use pijs_packages::ResourceOptions;
use pijs_runtime::Isolation;
use std::path::PathBuf;
use values::isolation;

/// Runs pi extensions without Node: fast to start, contained, and able to stop a reply that breaks a rule.
#[derive(Debug, Parser)]
#[command(
    name = "pi",
    version,
    disable_version_flag = true,
    args_conflicts_with_subcommands = true,
    args_override_self = true,
    max_term_width = 100,
    after_help = "\
Examples:
  pi demo                                          see a rule stop a reply, offline
  pi install ./my-extension                        install from a folder
  pi install pi-mermaid                            install from the npm registry
  pi -p 'say hello' --model script:reply.jsonl     run a recorded model
  pi -p 'fix it' --model anthropic/claude-sonnet-4-5 --mode json
  git diff | pi 'review this' --model openai/gpt-5.5:high
  pi @notes.md @shot.png 'what is missing?'        files come before the first message
  pi 'read package.json' 'which of them is old?'   one after the other
  pi --tools read,grep,find,ls -p 'review src/'    nothing can be changed
  pi --list-models sonnet                          models that have a key

Keys: --api-key, then auth.json and models.json in ~/.pi/agent (a key, $NAME or !command), then the
provider's variable (ANTHROPIC_API_KEY, OPENAI_API_KEY, GEMINI_API_KEY, ...). Without --model the
settings apply (defaultProvider, defaultModel, defaultThinkingLevel, enabledModels).

Options that are not listed here are passed to the extensions that registered them.
Exit codes: 0 done, 1 failed, 2 usage, 3 refused by policy, 130 interrupted.
Under --mode json the events say how a reply ended, and the exit code is 0."
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
    #[command(flatten)]
    pub(crate) run: RunArgs,
}

/// `pi [-p] [PROMPT] ...`
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct RunArgs {
    /// Answer one prompt and exit
    #[arg(short, long, help_heading = "Output")]
    pub(crate) print: bool,
    /// Messages to send, in order; @FILE puts a file before the first one
    #[arg(value_name = "@FILE|MESSAGE")]
    pub(crate) messages: Vec<String>,
    /// Model to use: PROVIDER/ID, an id or a part of one, or script:FILE for a recorded reply
    #[arg(long, value_name = "PROVIDER/ID[:THINKING]", help_heading = "Model")]
    pub(crate) model: Option<String>,
    /// Provider of --model
    #[arg(long, value_name = "NAME", help_heading = "Model")]
    pub(crate) provider: Option<String>,
    /// Thinking level of the model: off, minimal, low, medium, high, xhigh, max
    #[arg(long, value_name = "LEVEL", help_heading = "Model")]
    pub(crate) thinking: Option<String>,
    /// API key of the model's provider, for this run; visible to others in the list of processes
    #[arg(long, value_name = "KEY", allow_hyphen_values = true, help_heading = "Model")]
    pub(crate) api_key: Option<String>,
    /// Models that Ctrl+P cycles through: names or patterns, separated by commas
    #[arg(long, value_name = "PATTERNS", help_heading = "Model")]
    pub(crate) models: Option<String>,
    /// List the models that can be used, and exit
    #[arg(long, value_name = "SEARCH", num_args = 0..=1, default_missing_value = "", help_heading = "Model")]
    pub(crate) list_models: Option<String>,
    /// Output format: the final text, or one event per line
    #[arg(long, value_enum, default_value_t = Mode::Text, help_heading = "Output")]
    pub(crate) mode: Mode,
    /// Load an extension from a path or a package source; repeatable
    #[arg(short = 'e', long = "extension", value_name = "PATH|SOURCE", help_heading = "Extensions")]
    pub(crate) extensions: Vec<String>,
    /// Load only what -e names (also: -ne)
    #[arg(long, help_heading = "Extensions")]
    pub(crate) no_extensions: bool,
    /// Do not use the servers of mcp.json
    #[arg(long, help_heading = "Extensions")]
    pub(crate) no_mcp: bool,
    /// Exit with 1 when an installed extension fails to load, instead of continuing without it
    #[arg(long, help_heading = "Extensions")]
    pub(crate) fail_on_extension_error: bool,
    #[command(flatten)]
    pub(crate) resources: ResourceArgs,
    /// Decision on a capability that is not granted
    #[arg(long, value_enum, help_heading = "Permissions")]
    pub(crate) policy: Option<PolicyMode>,
    /// Grant a capability for this run: read:docs/**, exec:git, http:api.github.com, env:NAME, mcp:SERVER/TOOL; repeatable
    #[arg(long, value_name = "CAP[:SCOPE]", help_heading = "Permissions")]
    pub(crate) allow: Vec<String>,
    /// Refuse a capability for this run; repeatable
    #[arg(long, value_name = "CAP", help_heading = "Permissions")]
    pub(crate) deny: Vec<String>,
    /// Isolation of extension code
    #[arg(long, value_parser = isolation(), default_value_t, help_heading = "Extensions")]
    pub(crate) isolation: Isolation,
    /// Record the extensions' inputs and outputs to a new file; pi replay FILE plays it again
    #[arg(long, value_name = "FILE", help_heading = "Extensions")]
    pub(crate) tape: Option<PathBuf>,
    /// pi's version that extensions see: 0.87 or 0.73; the default is `extensionProfile` of the settings
    #[arg(long, value_name = "VERSION", help_heading = "Extensions")]
    pub(crate) profile: Option<PiProfile>,
    /// Let extensions run under --policy strict although this system cannot sandbox them
    #[arg(long, help_heading = "Permissions")]
    pub(crate) accept_unsealed: bool,
    #[command(flatten)]
    pub(crate) session: SessionArgs,
    #[command(flatten)]
    pub(crate) rules: RuleArgs,
    #[command(flatten)]
    pub(crate) tools: ToolArgs,
    /// Address of the model provider's API: a gateway, or a compatible endpoint
    #[arg(long, value_name = "URL", value_parser = base_url, help_heading = "Model")]
    pub(crate) base_url: Option<String>,
    /// Text that replaces the built-in system prompt, or a file with it
    #[arg(long, value_name = "TEXT|FILE", allow_hyphen_values = true, help_heading = "Prompt")]
    pub(crate) system_prompt: Option<String>,
    /// Text to append to the system prompt, or a file with it; repeatable
    #[arg(long, value_name = "TEXT|FILE", allow_hyphen_values = true, help_heading = "Prompt")]
    pub(crate) append_system_prompt: Vec<String>,
    /// Trust this folder's own .pi settings and extensions for this run
    #[arg(short, long, overrides_with = "no_approve", help_heading = "Permissions")]
    pub(crate) approve: bool,
    /// Ignore this folder's own .pi settings and extensions for this run (also: -na)
    #[arg(long, help_heading = "Permissions")]
    pub(crate) no_approve: bool,
    /// Do not fetch anything at the start, as with PI_OFFLINE=1
    #[arg(long, help_heading = None)]
    pub(crate) offline: bool,
    /// At the start, list what was loaded
    #[arg(long, help_heading = "Output")]
    pub(crate) verbose: bool,
    /// Append a trace to this file, as lines of pi.ext.log.v1; PI_LOG=pijs=debug prints a trace as text instead
    #[arg(long, value_name = "FILE", global = true, help_heading = "Output")]
    pub(crate) log_json: Option<PathBuf>,
    /// Theme of the terminal for this run
    #[arg(long, value_name = "NAME", allow_hyphen_values = true, help_heading = "Output")]
    pub(crate) use_theme: Option<String>,
    /// Write a session file as HTML, and exit; a message names another output file: .html, .md, .jsonl
    #[arg(long, value_name = "SESSION.jsonl", help_heading = "Output")]
    pub(crate) export: Option<PathBuf>,
    /// Accepted for compatibility; the terminal mode always uses the whole screen
    #[arg(long, value_name = "MODE", hide = true)]
    pub(crate) tui_mode: Option<String>,
    /// Print the version
    #[arg(short = 'v', short_alias = 'V', long, action = clap::ArgAction::Version, help_heading = None)]
    pub(crate) version: (),
}

/// Parses an address to which paths such as `/chat/completions` can be appended.
fn base_url(text: &str) -> Result<String, String> {
    let url = pijs_llm::provider::http::address(text)?;
    match url.query().or(url.fragment()) {
        Some(_) => Err("an API's address ends with its path, without ? and #".to_owned()),
        None => Ok(text.to_owned()),
    }
}

impl RunArgs {
    /// Returns the files that precede the first message.
    pub(crate) fn files(&self) -> impl Iterator<Item = &str> {
        self.messages.iter().filter_map(|word| word.strip_prefix('@'))
    }

    /// Returns the messages, in order.
    pub(crate) fn messages(&self) -> impl Iterator<Item = &str> {
        self.messages.iter().map(String::as_str).filter(|word| !word.starts_with('@'))
    }

    /// Returns whether the output is the text of the reply instead of events.
    pub(crate) fn is_text(&self) -> bool {
        self.mode == Mode::Text
    }

    /// Returns the user's decision on trusting this folder for this run.
    pub(crate) fn trust(&self) -> Option<bool> {
        (self.approve || self.no_approve).then_some(self.approve)
    }
}

/// Options of the session's storage.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Sessions")]
pub(crate) struct SessionArgs {
    /// Continue the latest session of this folder
    #[arg(short, long = "continue", conflicts_with = "no_session")]
    pub(crate) continue_session: bool,
    /// Choose a session of this folder first
    #[arg(short, long, conflicts_with = "no_session")]
    pub(crate) resume: bool,
    /// Continue a session: its file, which is created if it is missing, or its id or the first characters of it
    #[arg(long, value_name = "FILE|ID", conflicts_with = "no_session", allow_hyphen_values = true)]
    pub(crate) session: Option<String>,
    /// Continue the session with this id in this folder, or begin a session with this id
    #[arg(long, value_name = "ID", allow_hyphen_values = true)]
    pub(crate) session_id: Option<String>,
    /// Begin a session with a copy of another one
    #[arg(long, value_name = "FILE|ID", allow_hyphen_values = true)]
    pub(crate) fork: Option<String>,
    /// Folder of the sessions
    #[arg(long, value_name = "DIR", allow_hyphen_values = true)]
    pub(crate) session_dir: Option<String>,
    /// Keep the session in memory only
    #[arg(long)]
    pub(crate) no_session: bool,
    /// Name of the session
    #[arg(short, long, value_name = "NAME", allow_hyphen_values = true)]
    pub(crate) name: Option<String>,
}

/// Options that select tools.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Tools")]
pub(crate) struct ToolArgs {
    /// Enable only these tools, built-in or of extensions, separated by commas
    #[arg(short, long, value_name = "NAMES", allow_hyphen_values = true)]
    pub(crate) tools: Option<String>,
    /// Disable these tools (also: -xt)
    #[arg(long, value_name = "NAMES", allow_hyphen_values = true)]
    pub(crate) exclude_tools: Option<String>,
    /// Disable all tools (also: -nt)
    #[arg(long)]
    pub(crate) no_tools: bool,
    /// Disable built-in tools until the session selects them (also: -nbt)
    #[arg(long)]
    pub(crate) no_builtin_tools: bool,
}

/// Options that select resources other than extensions.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Skills, prompts and themes")]
pub(crate) struct ResourceArgs {
    /// A skill, or a folder of skills; repeatable
    #[arg(long = "skill", value_name = "PATH")]
    pub(crate) skills: Vec<String>,
    /// Only load skills of --skill and -e (also: -ns)
    #[arg(long)]
    pub(crate) no_skills: bool,
    /// A prompt template, or a folder of them; repeatable
    #[arg(long = "prompt-template", value_name = "PATH")]
    pub(crate) prompt_templates: Vec<String>,
    /// Only load prompt templates of --prompt-template and -e (also: -np)
    #[arg(long)]
    pub(crate) no_prompt_templates: bool,
    /// A theme, or a folder of themes; repeatable
    #[arg(long = "theme", value_name = "PATH")]
    pub(crate) themes: Vec<String>,
    /// Only load themes of --theme and -e
    #[arg(long)]
    pub(crate) no_themes: bool,
    /// Do not read AGENTS.md and CLAUDE.md (also: -nc)
    #[arg(long)]
    pub(crate) no_context_files: bool,
}

impl ResourceArgs {
    pub(crate) fn options(&self) -> ResourceOptions {
        ResourceOptions {
            skills: self.skills.clone(),
            prompts: self.prompt_templates.clone(),
            themes: self.themes.clone(),
            only_named_skills: self.no_skills,
            only_named_prompts: self.no_prompt_templates,
            only_named_themes: self.no_themes,
        }
    }
}

/// `--mode`
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Mode {
    /// The reply's text
    #[default]
    Text,
    /// One event per line
    Json,
    /// Commands on standard input, events on standard output
    Rpc,
}

/// `--policy`
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum PolicyMode {
    /// Deny everything that was not granted
    Strict,
    /// Ask the user; deny if there is none
    Prompt,
    /// Allow everything, with a warning and a log line
    Permissive,
}

/// The subcommands of `pi`.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Install a package: a folder, an npm name, npm:NAME@RANGE
    Install(InstallArgs),
    /// Update packages to the newest version that settings allow; exact versions are kept
    Update(UpdateArgs),
    /// Remove an installed package
    #[command(alias = "uninstall")]
    Remove(RemoveArgs),
    /// List installed packages
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Extensions: list, capabilities, grants, limits
    #[command(subcommand)]
    Ext(ExtCommand),
    /// MCP servers: programs and addresses whose tools the model may call
    #[command(subcommand)]
    Mcp(McpCommand),
    /// Streamed rules: list, check and try them, also over past sessions
    #[command(subcommand)]
    Rules(RulesCommand),
    /// Plugins of rummy: runs over entries, and their client protocol
    #[command(subcommand)]
    Rummy(RummyCommand),
    /// Play a recorded session again, without files, programs or network, and compare
    Replay(ReplayArgs),
    /// Recorded sessions
    #[command(subcommand)]
    Tape(TapeCommand),
    /// Write a page of a recorded session: actions of each extension, the replies and the verdicts on them
    Inspect(InspectArgs),
    /// Trust this folder's own .pi settings and extensions
    Trust {
        /// Stop trusting this folder
        #[arg(long)]
        remove: bool,
    },
    /// Not supported: pi's list of the resources of packages
    #[command(hide = true)]
    Config {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        rest: Vec<String>,
    },
    /// Not supported: printing keys
    #[command(hide = true)]
    Auth {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        rest: Vec<String>,
    },
    /// Watch a rule abort and retry a streaming reply; needs no network, no key, no set-up
    Demo {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

impl Command {
    /// Returns the name of the command as it is typed.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Install(_) => "install",
            Self::Update(_) => "update",
            Self::Remove(_) => "remove",
            Self::List { .. } => "list",
            Self::Ext(_) => "ext",
            Self::Mcp(_) => "mcp",
            Self::Rules(_) => "rules",
            Self::Rummy(_) => "rummy",
            Self::Replay(_) => "replay",
            Self::Tape(_) => "tape",
            Self::Inspect(_) => "inspect",
            Self::Trust { .. } => "trust",
            Self::Config { .. } => "config",
            Self::Auth { .. } => "auth",
            Self::Demo { .. } => "demo",
        }
    }
}

/// `pi install SOURCE`
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct InstallArgs {
    /// The first source.
    // Not a doc comment: rustdoc takes `[@RANGE]` for a link.
    #[arg(
        help = "A folder, npm:NAME[@RANGE], a bare npm name, git:HOST/PATH[@REF] or a git URL; without one, packages that settings \
                  list and that are missing are restored from the lock file"
    )]
    pub(crate) source: Option<String>,
    /// More sources
    #[arg(value_name = "SOURCE")]
    pub(crate) more: Vec<String>,
    /// Install although the name is similar to that of an installed package
    #[arg(long)]
    pub(crate) similar_name: bool,
    #[command(flatten)]
    pub(crate) common: PackageArgs,
}

impl InstallArgs {
    /// Returns one command for each source.
    pub(crate) fn each(&self) -> Vec<Self> {
        let first = Self { more: Vec::new(), ..self.clone() };
        let more = self.more.iter().map(|source| Self { source: Some(source.clone()), ..first.clone() });
        std::iter::once(first.clone()).chain(more).collect()
    }

    /// Returns whether the source is a package from the user's configured npm registry, and not a folder.
    pub(crate) fn is_fetched(&self) -> bool {
        let is_name = |source: &str| !source.starts_with(['.', '/', '~']) && !source.starts_with("git:");
        let source = self.source.as_deref().map(|source| source.strip_prefix("npm:").unwrap_or(source));
        source.is_some_and(|source| is_name(source) && !source.contains("://")) && self.common.registry.is_none()
    }
}

/// `pi update [SOURCE]`
#[derive(Debug, Args)]
pub(crate) struct UpdateArgs {
    /// The source as it was installed, or the package's name; all packages if omitted
    pub(crate) source: Option<String>,
    /// Install new versions regardless of their age
    #[arg(long)]
    pub(crate) no_wait: bool,
    #[command(flatten)]
    pub(crate) common: PackageArgs,
}

/// Options that `pi install` and `pi update` share.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct PackageArgs {
    /// Packages of this project (.pi/) instead of the user's
    #[arg(short, long)]
    pub(crate) local: bool,
    /// npm registry to use instead of the configured one
    #[arg(long, value_name = "URL")]
    pub(crate) registry: Option<String>,
    /// Grant the requested capabilities without a prompt
    #[arg(short, long)]
    pub(crate) yes: bool,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// `pi remove SOURCE`
#[derive(Debug, Args)]
pub(crate) struct RemoveArgs {
    /// The source as it was installed, or the package's name
    pub(crate) source: String,
    /// Remove from this project (.pi/) instead of from the user's packages
    #[arg(short, long)]
    pub(crate) local: bool,
}

/// `pi mcp ...`
#[derive(Debug, Subcommand)]
pub(crate) enum McpCommand {
    /// Add a server: pi mcp add NAME -- COMMAND ARGS..., or pi mcp add NAME --url URL
    Add(Box<McpAddArgs>),
    /// Remove a server
    Remove {
        /// Name of the server
        name: String,
        /// Remove from this project (.pi/) instead of from the user's servers
        #[arg(short, long)]
        local: bool,
    },
    /// List servers and their errors
    List {
        /// Start each server and list its tools
        #[arg(long)]
        probe: bool,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Accept the tools of a server after they changed
    Accept {
        /// Name of the server
        name: String,
    },
    /// Sign in to a server
    Login {
        /// Name of the server
        name: String,
    },
    /// Sign out of a server
    Logout {
        /// Name of the server
        name: String,
    },
}

/// `pi mcp add`
#[derive(Debug, Args)]
pub(crate) struct McpAddArgs {
    /// Name of the server: letters, digits, - and _
    pub(crate) name: String,
    /// Address of a server that speaks Streamable HTTP
    #[arg(long, conflicts_with = "command")]
    pub(crate) url: Option<String>,
    /// Header of each request to the address; repeatable
    #[arg(long, value_name = "NAME=VALUE", requires = "url")]
    pub(crate) header: Vec<String>,
    /// Environment variable that contains a token for the address
    #[arg(long, value_name = "NAME", requires = "url")]
    pub(crate) bearer_token_env_var: Option<String>,
    /// Environment variable of the program: NAME=VALUE, where VALUE may be ${NAME}; repeatable
    #[arg(long, value_name = "NAME=VALUE")]
    pub(crate) env: Vec<String>,
    /// Working folder of the program
    #[arg(long, value_name = "FOLDER")]
    pub(crate) cwd: Option<String>,
    /// Time limit of a request, in seconds
    #[arg(long, value_name = "SECONDS")]
    pub(crate) timeout: Option<f64>,
    /// Exposure of the server's tools to the model: direct, deferred (found by tool_search) or hidden
    #[arg(long, value_parser = ["direct", "deferred", "codemode", "hidden"])]
    pub(crate) exposure: Option<String>,
    /// Description of the server in a sentence
    #[arg(long)]
    pub(crate) description: Option<String>,
    /// Add to this project (.pi/) instead of the user's servers
    #[arg(short, long)]
    pub(crate) local: bool,
    /// The program and its arguments
    #[arg(last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<String>,
}

/// `pi ext ...`
#[derive(Debug, Subcommand)]
pub(crate) enum ExtCommand {
    /// List extensions that would be loaded here, in load order
    List {
        /// Extra extensions, as in `pi -e`
        #[arg(short = 'e', long = "extension", value_name = "PATH|SOURCE")]
        extensions: Vec<String>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Print the registrations of extensions, in the form of the conformance harness
    Snapshot(SnapshotArgs),
    /// Evidence ledgers of extensions
    #[command(subcommand)]
    Ledger(LedgerCommand),
    /// Play a scenario against extensions and print the trace, in the form of the conformance harness
    Drive(DriveArgs),
    /// List and change grants of extensions
    Grants(GrantsArgs),
    /// Explain the gate's decision on an extension
    Explain(ExplainArgs),
    /// Show the limits of extensions, and the isolation on this machine
    Limits {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Fetch and compile the parts of pi and its packages that extensions may import, so that later starts need no network
    Supply {
        /// Write the licences of these packages to a file
        #[arg(long, value_name = "FILE")]
        licences: Option<PathBuf>,
    },
    /// Show everything about one extension: registrations, capabilities, limits
    Show {
        /// Name, source or path
        extension: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

/// `pi ext ledger`
#[derive(Debug, Subcommand)]
pub(crate) enum LedgerCommand {
    /// Check that no line was changed, removed, repeated or moved, and name the first such line
    Verify {
        /// The newest file of a ledger, SESSION.jsonl; all ledgers of this user if omitted
        file: Option<PathBuf>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

/// `pi ext grants`
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct GrantsArgs {
    #[command(subcommand)]
    pub(crate) command: Option<GrantsCommand>,
    /// Name, source or path; all extensions if omitted
    pub(crate) extension: Option<String>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// `pi ext grants ...`
#[derive(Debug, Subcommand)]
pub(crate) enum GrantsCommand {
    /// Grant capabilities: exec:git, http:api.github.com, read:/etc/hosts, verdict
    Allow {
        /// Name, source or path
        extension: String,
        /// Capabilities with their scopes; one or more
        #[arg(value_name = "CAP[:SCOPE]", required = true)]
        grants: Vec<String>,
    },
    /// Deny capabilities permanently: http, read:/etc, exec:git
    Deny {
        /// Name, source or path
        extension: String,
        /// Capabilities with their scopes; one or more
        #[arg(value_name = "CAP[:SCOPE]", required = true)]
        grants: Vec<String>,
    },
    /// Revoke grants and denials: all, those of a capability (read), or those of one scope (read:/etc)
    Revoke {
        /// Name, source or path
        extension: String,
        /// The capabilities to revoke; all if omitted
        #[arg(value_name = "CAP[:SCOPE]")]
        answers: Vec<String>,
    },
}

/// `pi ext explain`
#[derive(Debug, Args)]
pub(crate) struct ExplainArgs {
    /// Name, source or path
    pub(crate) extension: String,
    /// A capability, or a call: exec git status, read PATH, write PATH, http URL, env NAME, tool NAME
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "CAP|CALL")]
    pub(crate) what: Vec<String>,
    /// Decide under this policy instead of the configured one
    #[arg(long, value_enum)]
    pub(crate) policy: Option<PolicyMode>,
    /// Decide as if run with this --allow; repeatable
    #[arg(long, value_name = "CAP[:SCOPE]")]
    pub(crate) allow: Vec<String>,
    /// Decide as if run with this --deny; repeatable
    #[arg(long, value_name = "CAP")]
    pub(crate) deny: Vec<String>,
    /// Print JSON; must precede the call
    #[arg(long)]
    pub(crate) json: bool,
}
