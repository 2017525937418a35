//! What users type.
//!
//! Options that clap does not know are flags of extensions (`pi.registerFlag`); they are taken out
//! before parsing ([`flags`]), and checked once the extensions have registered theirs.

mod config;
mod flags;
mod similar;

pub(crate) use flags::{ExtensionFlag, split_extension_flags};
pub(crate) use similar::{misspelt_command, misspelt_help, similar_option};

use crate::inspect::InspectArgs;
use crate::rules::{RuleArgs, RulesCommand};
use crate::rummy::RummyCommand;
use crate::tape::{ReplayArgs, TapeCommand};
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, Subcommand, ValueEnum};
use pijs_conformance::drive::DriveArgs;
use pijs_conformance::snapshot::SnapshotArgs;
use pijs_host::PiProfile;
use pijs_packages::ResourceOptions;
use pijs_runtime::Isolation;
use pijs_runtime::rules::Peer;
use std::path::PathBuf;

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
  pi --list-models sonnet                          what there is a key for

Keys: --api-key, then auth.json and models.json in ~/.pi/agent (a key, $NAME or !command), then the
provider's variable (ANTHROPIC_API_KEY, OPENAI_API_KEY, GEMINI_API_KEY, ...). Without --model the
settings count (defaultProvider, defaultModel, defaultThinkingLevel, enabledModels).

Options that are not listed here are passed to the extensions that registered them.
Exit codes: 0 done, 1 failed, 2 usage, 3 refused by policy, 130 interrupted.
Under --mode json the events say how a reply ended, and it ends with 0."
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
    /// What to ask, one message after the other; @FILE puts a file before the first one
    #[arg(value_name = "@FILE|MESSAGE")]
    pub(crate) messages: Vec<String>,
    /// Which model answers: PROVIDER/ID, an id or a part of one, or script:FILE for a recorded reply
    #[arg(long, value_name = "PROVIDER/ID[:THINKING]", help_heading = "Model")]
    pub(crate) model: Option<String>,
    /// Provider of --model
    #[arg(long, value_name = "NAME", help_heading = "Model")]
    pub(crate) provider: Option<String>,
    /// How much the model thinks: off, minimal, low, medium, high, xhigh, max
    #[arg(long, value_name = "LEVEL", help_heading = "Model")]
    pub(crate) thinking: Option<String>,
    /// Key for the model's provider, for this run; others see it in the list of processes
    #[arg(long, value_name = "KEY", allow_hyphen_values = true, help_heading = "Model")]
    pub(crate) api_key: Option<String>,
    /// Models that Ctrl+P goes through: names or patterns, with commas between them
    #[arg(long, value_name = "PATTERNS", help_heading = "Model")]
    pub(crate) models: Option<String>,
    /// List the models that can be used, and end
    #[arg(long, value_name = "SEARCH", num_args = 0..=1, default_missing_value = "", help_heading = "Model")]
    pub(crate) list_models: Option<String>,
    /// How to report: the final text, or one event a line
    #[arg(long, value_enum, default_value_t = Mode::Text, help_heading = "Output")]
    pub(crate) mode: Mode,
    /// Load an extension from a path or a package source; repeatable
    #[arg(short = 'e', long = "extension", value_name = "PATH|SOURCE", help_heading = "Extensions")]
    pub(crate) extensions: Vec<String>,
    /// Load only what -e names (also: -ne)
    #[arg(long, help_heading = "Extensions")]
    pub(crate) no_extensions: bool,
    /// Use no server of mcp.json
    #[arg(long, help_heading = "Extensions")]
    pub(crate) no_mcp: bool,
    /// Exit with 1 when an installed extension cannot be loaded, instead of going on without it
    #[arg(long, help_heading = "Extensions")]
    pub(crate) fail_on_extension_error: bool,
    #[command(flatten)]
    pub(crate) resources: ResourceArgs,
    /// What happens to a capability that was not granted
    #[arg(long, value_enum, help_heading = "Permissions")]
    pub(crate) policy: Option<PolicyMode>,
    /// Grant a capability for this run: read:docs/**, exec:git, http:api.github.com, env:NAME, mcp:SERVER/TOOL; repeatable
    #[arg(long, value_name = "CAP[:SCOPE]", help_heading = "Permissions")]
    pub(crate) allow: Vec<String>,
    /// Refuse a capability for this run; repeatable
    #[arg(long, value_name = "CAP", help_heading = "Permissions")]
    pub(crate) deny: Vec<String>,
    /// Where extension code runs
    #[arg(long, value_parser = isolation(), default_value_t, help_heading = "Extensions")]
    pub(crate) isolation: Isolation,
    /// Record what extensions do to a new file; pi replay FILE plays it again
    #[arg(long, value_name = "FILE", help_heading = "Extensions")]
    pub(crate) tape: Option<PathBuf>,
    /// Which pi extensions meet: 0.87 or 0.73; without it `extensionProfile` of the settings
    #[arg(long, value_name = "VERSION", help_heading = "Extensions")]
    pub(crate) profile: Option<PiProfile>,
    /// Let extensions run under --policy strict although this system cannot seal them
    #[arg(long, help_heading = "Permissions")]
    pub(crate) accept_unsealed: bool,
    #[command(flatten)]
    pub(crate) session: SessionArgs,
    #[command(flatten)]
    pub(crate) rules: RuleArgs,
    #[command(flatten)]
    pub(crate) tools: ToolArgs,
    /// Address of the API of the model's provider: a gateway, or a compatible endpoint
    #[arg(long, value_name = "URL", value_parser = base_url, help_heading = "Model")]
    pub(crate) base_url: Option<String>,
    /// Text, or a file of it, that replaces the built-in system prompt
    #[arg(long, value_name = "TEXT|FILE", allow_hyphen_values = true, help_heading = "Prompt")]
    pub(crate) system_prompt: Option<String>,
    /// Text, or a file of it, that follows the system prompt; repeatable
    #[arg(long, value_name = "TEXT|FILE", allow_hyphen_values = true, help_heading = "Prompt")]
    pub(crate) append_system_prompt: Vec<String>,
    /// Let this folder's own .pi settings and extensions count, this time
    #[arg(short, long, overrides_with = "no_approve", help_heading = "Permissions")]
    pub(crate) approve: bool,
    /// Leave them out, this time (also: -na)
    #[arg(long, help_heading = "Permissions")]
    pub(crate) no_approve: bool,
    /// Fetch nothing at the start, as with PI_OFFLINE=1
    #[arg(long, help_heading = None)]
    pub(crate) offline: bool,
    /// Say at the start what was loaded
    #[arg(long, help_heading = "Output")]
    pub(crate) verbose: bool,
    /// Theme of the terminal, this time
    #[arg(long, value_name = "NAME", allow_hyphen_values = true, help_heading = "Output")]
    pub(crate) use_theme: Option<String>,
    /// Write a session's file as HTML, and end; the message names another file: .html, .md, .jsonl
    #[arg(long, value_name = "SESSION.jsonl", help_heading = "Output")]
    pub(crate) export: Option<PathBuf>,
    /// There is one way to use the terminal: the whole of it
    #[arg(long, value_name = "MODE", hide = true)]
    pub(crate) tui_mode: Option<String>,
    /// Print the version
    #[arg(short = 'v', short_alias = 'V', long, action = clap::ArgAction::Version, help_heading = None)]
    pub(crate) version: (),
}

/// An address that `/chat/completions` and the like can follow.
fn base_url(text: &str) -> Result<String, String> {
    let url = pijs_llm::provider::http::address(text)?;
    match url.query().or(url.fragment()) {
        Some(_) => Err("an API's address ends with its path, without ? and #".to_owned()),
        None => Ok(text.to_owned()),
    }
}

impl RunArgs {
    /// Files that stand before the first message.
    pub(crate) fn files(&self) -> impl Iterator<Item = &str> {
        self.messages.iter().filter_map(|word| word.strip_prefix('@'))
    }

    /// What is said, one after the other.
    pub(crate) fn said(&self) -> impl Iterator<Item = &str> {
        self.messages.iter().map(String::as_str).filter(|word| !word.starts_with('@'))
    }

    /// Whether the reply's text is what is printed, and no events.
    pub(crate) fn is_text(&self) -> bool {
        self.mode == Mode::Text
    }

    /// What a person said of this folder for this run.
    pub(crate) fn trust(&self) -> Option<bool> {
        (self.approve || self.no_approve).then_some(self.approve)
    }
}

/// Where the conversation is kept.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Sessions")]
pub(crate) struct SessionArgs {
    /// Go on with the latest session of this folder
    #[arg(short, long = "continue", conflicts_with = "no_session")]
    pub(crate) continue_session: bool,
    /// Choose a session of this folder first
    #[arg(short, long, conflicts_with = "no_session")]
    pub(crate) resume: bool,
    /// Go on with a session: its file, which is created if it is missing, or its id or the first characters of it
    #[arg(long, value_name = "FILE|ID", conflicts_with = "no_session", allow_hyphen_values = true)]
    pub(crate) session: Option<String>,
    /// Go on with this folder's session of exactly this id, or begin it
    #[arg(long, value_name = "ID", allow_hyphen_values = true)]
    pub(crate) session_id: Option<String>,
    /// Begin a session with a copy of another one
    #[arg(long, value_name = "FILE|ID", allow_hyphen_values = true)]
    pub(crate) fork: Option<String>,
    /// Where sessions are kept and looked for
    #[arg(long, value_name = "DIR", allow_hyphen_values = true)]
    pub(crate) session_dir: Option<String>,
    /// Keep the session in memory
    #[arg(long)]
    pub(crate) no_session: bool,
    /// What the session is called
    #[arg(short, long, value_name = "NAME", allow_hyphen_values = true)]
    pub(crate) name: Option<String>,
}

/// Which tools there are.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Tools")]
pub(crate) struct ToolArgs {
    /// Only these tools, built-in or of extensions, with commas between them
    #[arg(short, long, value_name = "NAMES", allow_hyphen_values = true)]
    pub(crate) tools: Option<String>,
    /// All but these (also: -xt)
    #[arg(long, value_name = "NAMES", allow_hyphen_values = true)]
    pub(crate) exclude_tools: Option<String>,
    /// No tools (also: -nt)
    #[arg(long)]
    pub(crate) no_tools: bool,
    /// No built-in tools, until somebody chooses them (also: -nbt)
    #[arg(long)]
    pub(crate) no_builtin_tools: bool,
}

/// What is read beside extensions.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Skills, prompts and themes")]
pub(crate) struct ResourceArgs {
    /// A skill, or a folder of skills; repeatable
    #[arg(long = "skill", value_name = "PATH")]
    pub(crate) skills: Vec<String>,
    /// Only skills that --skill and -e bring (also: -ns)
    #[arg(long)]
    pub(crate) no_skills: bool,
    /// A prompt template, or a folder of them; repeatable
    #[arg(long = "prompt-template", value_name = "PATH")]
    pub(crate) prompt_templates: Vec<String>,
    /// Only prompt templates that --prompt-template and -e bring (also: -np)
    #[arg(long)]
    pub(crate) no_prompt_templates: bool,
    /// A theme, or a folder of themes; repeatable
    #[arg(long = "theme", value_name = "PATH")]
    pub(crate) themes: Vec<String>,
    /// Only themes that --theme and -e bring
    #[arg(long)]
    pub(crate) no_themes: bool,
    /// Read no AGENTS.md or CLAUDE.md (also: -nc)
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
    /// One event a line
    Json,
    /// Commands on stdin, events on stdout
    Rpc,
}

/// `--policy`
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum PolicyMode {
    /// Deny what was not granted
    Strict,
    /// Ask a person; without one, deny
    Prompt,
    /// Allow, warn and log
    Permissive,
}

/// Names of [`Isolation`], for options.
pub(crate) fn isolation() -> impl TypedValueParser<Value = Isolation> {
    let described = [
        PossibleValue::new("process").help("A sealed worker process per package; needs Linux"),
        PossibleValue::new("thread").help("Inside pi, under the same limits and the same gate"),
    ];
    PossibleValuesParser::new(described).try_map(|name| name.parse::<Isolation>())
}

/// Names of [`Peer`], for options.
pub(crate) fn peer() -> impl TypedValueParser<Value = Peer> {
    let described = [
        PossibleValue::new("omp").help("oh-my-pi"),
        PossibleValue::new("cursor").help("Cursor"),
        PossibleValue::new("built-in").help("the rules that come with pi"),
    ];
    PossibleValuesParser::new(described).map(|name| name.parse::<Peer>().expect("one of these"))
}

/// Everything that is not a prompt.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Install a package: a folder, an npm name, npm:NAME@RANGE
    Install(InstallArgs),
    /// Bring packages to the newest version that settings allow; exact versions stay
    Update(UpdateArgs),
    /// Remove an installed package
    #[command(alias = "uninstall")]
    Remove(RemoveArgs),
    /// List installed packages
    List {
        /// Machine output
        #[arg(long)]
        json: bool,
    },
    /// What is loaded, and what it may do
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
    /// Play a recorded session again, with no file, program or network, and compare
    Replay(ReplayArgs),
    /// Recorded sessions
    #[command(subcommand)]
    Tape(TapeCommand),
    /// Write a page of a recorded session: what each extension did, the replies and the verdicts on them
    Inspect(InspectArgs),
    /// Let this folder's own .pi settings and extensions count
    Trust {
        /// No longer
        #[arg(long)]
        remove: bool,
    },
    /// pi's list of what packages bring is not here
    #[command(hide = true)]
    Config {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        rest: Vec<String>,
    },
    /// Keys are not printed from here
    #[command(hide = true)]
    Auth {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        rest: Vec<String>,
    },
    /// Watch a rule abort and retry a streaming reply; needs no network, no key, no set-up
    Demo {
        /// Machine output
        #[arg(long)]
        json: bool,
    },
}

/// `pi install SOURCE`
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct InstallArgs {
    /// A folder, npm:NAME[@RANGE], a bare npm name, git:HOST/PATH[@REF] or a git URL; without one, what settings list and
    /// the disk lacks is brought back from the lock file
    pub(crate) source: Option<String>,
    /// More of them
    #[arg(value_name = "SOURCE")]
    pub(crate) more: Vec<String>,
    /// Install although the name can be taken for that of an installed package
    #[arg(long)]
    pub(crate) similar_name: bool,
    #[command(flatten)]
    pub(crate) common: PackageArgs,
}

impl InstallArgs {
    /// One command for each source.
    pub(crate) fn each(&self) -> Vec<Self> {
        let first = Self { more: Vec::new(), ..self.clone() };
        let more = self.more.iter().map(|source| Self { source: Some(source.clone()), ..first.clone() });
        std::iter::once(first.clone()).chain(more).collect()
    }

    /// Whether the source is one of the user's own npm registry, and no folder.
    pub(crate) fn is_fetched(&self) -> bool {
        let is_name = |source: &str| !source.starts_with(['.', '/', '~']) && !source.starts_with("git:");
        let source = self.source.as_deref().map(|source| source.strip_prefix("npm:").unwrap_or(source));
        source.is_some_and(|source| is_name(source) && !source.contains("://")) && self.common.registry.is_none()
    }
}

/// `pi update [SOURCE]`
#[derive(Debug, Args)]
pub(crate) struct UpdateArgs {
    /// As it was installed, or the package's name; all packages without it
    pub(crate) source: Option<String>,
    /// Take versions however new they are
    #[arg(long)]
    pub(crate) no_wait: bool,
    #[command(flatten)]
    pub(crate) common: PackageArgs,
}

/// What `pi install` and `pi update` share.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct PackageArgs {
    /// Packages of this project (.pi/) instead of the user's
    #[arg(short, long)]
    pub(crate) local: bool,
    /// npm registry to ask instead of the configured one
    #[arg(long, value_name = "URL")]
    pub(crate) registry: Option<String>,
    /// Grant what is asked for, without asking
    #[arg(short, long)]
    pub(crate) yes: bool,
    /// Machine output
    #[arg(long)]
    pub(crate) json: bool,
}

/// `pi remove SOURCE`
#[derive(Debug, Args)]
pub(crate) struct RemoveArgs {
    /// As it was installed, or the package's name
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
        /// Its name
        name: String,
        /// From this project (.pi/) instead of the user's servers
        #[arg(short, long)]
        local: bool,
    },
    /// List servers, and what went wrong with them
    List {
        /// Start each one and ask what it has
        #[arg(long)]
        probe: bool,
        /// Machine output
        #[arg(long)]
        json: bool,
    },
    /// Agree to the tools that a server has now, after they changed
    Accept {
        /// Its name
        name: String,
    },
    /// Sign in to a server
    Login {
        /// Its name
        name: String,
    },
    /// Sign out of a server
    Logout {
        /// Its name
        name: String,
    },
}

/// `pi mcp add`
#[derive(Debug, Args)]
pub(crate) struct McpAddArgs {
    /// Letters, digits, - and _
    pub(crate) name: String,
    /// The address of a server that speaks Streamable HTTP
    #[arg(long, conflicts_with = "command")]
    pub(crate) url: Option<String>,
    /// Header of each request to the address; repeatable
    #[arg(long, value_name = "NAME=VALUE", requires = "url")]
    pub(crate) header: Vec<String>,
    /// Variable that holds a token for the address
    #[arg(long, value_name = "NAME", requires = "url")]
    pub(crate) bearer_token_env_var: Option<String>,
    /// Variable of the program: NAME=VALUE, where VALUE may be ${NAME}; repeatable
    #[arg(long, value_name = "NAME=VALUE")]
    pub(crate) env: Vec<String>,
    /// Folder that the program works in
    #[arg(long, value_name = "FOLDER")]
    pub(crate) cwd: Option<String>,
    /// Time that a request may take, in seconds
    #[arg(long, value_name = "SECONDS")]
    pub(crate) timeout: Option<f64>,
    /// How its tools reach the model: direct, deferred (found by tool_search) or hidden
    #[arg(long, value_parser = ["direct", "deferred", "codemode", "hidden"])]
    pub(crate) exposure: Option<String>,
    /// A sentence about what it offers
    #[arg(long)]
    pub(crate) description: Option<String>,
    /// Into this project (.pi/) instead of the user's servers
    #[arg(short, long)]
    pub(crate) local: bool,
    /// The program and its arguments
    #[arg(last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<String>,
}

/// `pi ext ...`
#[derive(Debug, Subcommand)]
pub(crate) enum ExtCommand {
    /// What would be loaded here, in load order
    List {
        /// Extra extensions, as in `pi -e`
        #[arg(short = 'e', long = "extension", value_name = "PATH|SOURCE")]
        extensions: Vec<String>,
        /// Machine output
        #[arg(long)]
        json: bool,
    },
    /// Print what extensions register, as the conformance harness compares it
    Snapshot(SnapshotArgs),
    /// What extensions did: the evidence ledgers
    #[command(subcommand)]
    Ledger(LedgerCommand),
    /// Play a scenario against extensions and print what they did, as the conformance harness compares it
    Drive(DriveArgs),
    /// What extensions were granted, and changing it
    Grants(GrantsArgs),
    /// What the gate says about an extension, and why
    Explain(ExplainArgs),
    /// What an extension may use up, and which walls stand around it on this machine
    Limits {
        /// Machine output
        #[arg(long)]
        json: bool,
    },
    /// Fetch and compile now what extensions may import of pi and its packages, so that nothing has to be fetched later
    Supply {
        /// Write the licences of these packages to a file
        #[arg(long, value_name = "FILE")]
        licences: Option<PathBuf>,
    },
    /// Everything about one extension: registrations, capabilities, limits
    Show {
        /// Name, source or path
        extension: String,
        /// Machine output
        #[arg(long)]
        json: bool,
    },
}

/// `pi ext ledger`
#[derive(Debug, Subcommand)]
pub(crate) enum LedgerCommand {
    /// Check that no line was changed, removed, repeated or moved, and name the first that was
    Verify {
        /// The newest file of a ledger, SESSION.jsonl; all ledgers of this user when left out
        file: Option<PathBuf>,
        /// Machine output
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
    /// Name, source or path; all without one
    pub(crate) extension: Option<String>,
    /// Machine output
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
    /// Refuse capabilities for good: http, read:/etc, exec:git
    Deny {
        /// Name, source or path
        extension: String,
        /// Capabilities with their scopes; one or more
        #[arg(value_name = "CAP[:SCOPE]", required = true)]
        grants: Vec<String>,
    },
    /// Take answers back: all, those about capabilities, or those about one scope, read:/etc
    Revoke {
        /// Name, source or path
        extension: String,
        /// The capabilities to take back; all without one
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
    /// Under this policy instead of the configured one
    #[arg(long, value_enum)]
    pub(crate) policy: Option<PolicyMode>,
    /// As if run with this --allow; repeatable
    #[arg(long, value_name = "CAP[:SCOPE]")]
    pub(crate) allow: Vec<String>,
    /// As if run with this --deny; repeatable
    #[arg(long, value_name = "CAP")]
    pub(crate) deny: Vec<String>,
    /// Machine output; before the call
    #[arg(long)]
    pub(crate) json: bool,
}
