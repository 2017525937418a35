//! The form of a `case.json`. `tests/attacks/README.md` documents it.

use serde::Deserialize;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// One attack.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Case {
    /// The goal of the attacker, one sentence.
    pub(crate) title: String,
    /// `--policy` of each run of `pi -p`; each is a test.
    #[serde(default = "default_policies")]
    pub(crate) policies: Vec<String>,
    /// `--isolation`; each is a test.
    #[serde(default = "default_isolations")]
    pub(crate) isolations: Vec<String>,
    /// Another case whose files this one shares; a file of its own replaces a shared one.
    pub(crate) files_of: Option<String>,
    /// The platforms that can run it. Such a case counts as present on other systems.
    #[serde(default)]
    pub(crate) platform: Option<Platform>,
    /// Each a [`Step`], parsed after the names in it (`@@project@@`) are replaced.
    #[serde(default)]
    pub(crate) steps: Vec<Value>,
    /// Invariants in addition to those of every case (see `invariants.rs`).
    #[serde(default)]
    pub(crate) holds: Vec<Invariant>,
    /// Globs below the world that a `pi` step may change in spite of N4 or N8.
    #[serde(default)]
    pub(crate) may_change: Vec<String>,
    /// Guards that the case needs; `a+b` are lowered together.
    #[serde(default)]
    pub(crate) guards: Vec<Guard>,
    /// The reason why no guard can be lowered; required of every case without guards.
    #[serde(default)]
    pub(crate) unguarded: Option<String>,
    /// Rust tests of this case, as `path/of/file.rs#name_of_the_test`.
    #[serde(default)]
    pub(crate) rust: Vec<String>,
}

/// `"fs.beneath"`, or with the text that the failure of the red run must contain.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub(crate) enum Guard {
    Name(String),
    Red { guard: String, red: String },
}

impl Guard {
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Name(name) | Self::Red { guard: name, .. } => name,
        }
    }

    /// Returns the text that the message of the red run must contain.
    pub(crate) fn red(&self) -> &str {
        match self {
            Self::Name(_) => "",
            Self::Red { red, .. } => red,
        }
    }
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Platform {
    /// `linux`, `macos`, `windows`.
    pub(crate) only: String,
    #[expect(dead_code, reason = "required, so that nobody leaves a platform out silently")]
    pub(crate) reason: String,
}

fn default_policies() -> Vec<String> {
    vec!["prompt".to_owned()]
}

fn default_isolations() -> Vec<String> {
    vec![if cfg!(target_os = "linux") { "process" } else { "thread" }.to_owned()]
}

/// Invariants of security.md 3.1. N5, N6 and N7 hold in every case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub(crate) enum Invariant {
    N1,
    N2,
    N3,
    N4,
    N5,
    N6,
    N7,
    N8,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Step {
    /// Runs `pi-attacked`.
    Pi(Box<Pi>),
    /// Makes a file, folder, link, fifo or socket.
    Write(Write),
    /// Changes an existing file.
    Edit(Edit),
    Remove {
        path: String,
    },
    Rename {
        from: String,
        to: String,
    },
    /// Publishes a package in the fake registry, whose address is `@@registry@@`.
    Publish(Box<Publish>),
    /// Changes the fake registry's document of a package (a merge patch), or its response for a path.
    Registry {
        #[serde(default)]
        package: Option<String>,
        #[serde(default)]
        patch: Option<Value>,
        #[serde(default)]
        path: Option<String>,
        #[serde(default)]
        reply: Option<RegistryReply>,
    },
    /// Writes an archive as a file.
    Archive {
        path: String,
        archive: Archive,
    },
    /// Builds an extension and writes it as a manipulated artifact.
    Artifact(Box<Forged>),
    /// Starts a web server on loopback, whose address is `@@server.NAME@@`.
    Serve {
        name: String,
        #[serde(default)]
        replies: BTreeMap<String, Vec<Reply>>,
        /// Folder whose files answer all other paths, as a git repository is served.
        #[serde(default)]
        folder: Option<String>,
    },
    /// Runs another program (for setup such as `git init`), without `pi` and without canaries.
    Run {
        program: String,
        #[serde(default)]
        args: Vec<String>,
        #[serde(default)]
        cwd: Option<String>,
        #[serde(default)]
        env: BTreeMap<String, String>,
        /// Stores its standard output (trimmed) as `@@NAME@@`.
        #[serde(default)]
        keep: Option<String>,
    },
    /// Runs lists of steps concurrently.
    Parallel {
        lists: Vec<Vec<Value>>,
    },
    /// Repeats steps; `@@round@@` counts from 0.
    Repeat {
        times: usize,
        /// Number of rounds with `PIJS_NIGHTLY=1`.
        #[serde(default)]
        nightly: Option<usize>,
        steps: Vec<Value>,
    },
    /// Runs the steps once for each set of names. With a guard down each of them has to fail.
    Each {
        of: Vec<Map<String, Value>>,
        steps: Vec<Value>,
    },
    /// Runs the steps of `support/NAME.json`.
    Include {
        name: String,
    },
    /// Checks files.
    Expect(Files),
}

/// An artifact that differs from the output of its sources. All digests in it match.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Forged {
    pub(crate) path: String,
    /// The extension that it is built of.
    pub(crate) of: String,
    /// A merge patch of its metadata.
    #[serde(default)]
    pub(crate) metadata: Option<Value>,
    /// Replaces the bytecode of its first module by that of this extension's.
    #[serde(default)]
    pub(crate) bytecode_of: Option<String>,
    /// Adds modules: specifier to source.
    #[serde(default)]
    pub(crate) modules: BTreeMap<String, String>,
    /// Replaces the source of its first module.
    #[serde(default)]
    pub(crate) source: Option<String>,
}

/// The command line of `pi` and the expected result.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Pi {
    /// The whole command line. The default is `-p PROMPT --model script:...` and the members below.
    #[serde(default)]
    pub(crate) args: Option<Vec<String>>,
    #[serde(default = "default_prompt")]
    pub(crate) prompt: String,
    /// A session at the terminal in place of one prompt.
    #[serde(default)]
    pub(crate) interactive: bool,
    /// Files of the case, each passed with `-e`.
    #[serde(default)]
    pub(crate) extensions: Vec<String>,
    /// Replies of the scripted model; the default is `fine` for each request.
    #[serde(default)]
    pub(crate) model: Option<Vec<Value>>,
    /// More arguments.
    #[serde(default)]
    pub(crate) flags: Vec<String>,
    #[serde(default)]
    pub(crate) env: BTreeMap<String, String>,
    /// Environment variables of the runner that are removed.
    #[serde(default)]
    pub(crate) without_env: Vec<String>,
    #[serde(default)]
    pub(crate) cwd: Option<String>,
    #[serde(default)]
    pub(crate) stdin: Option<String>,
    /// A terminal in place of pipes, with a user's input.
    #[serde(default)]
    pub(crate) terminal: Option<Terminal>,
    /// Leaves its standard output unread until it has ended.
    #[serde(default)]
    pub(crate) unread: bool,
    /// Time limit of a run that may hang; other runs have more time (`run::patience`).
    #[serde(default = "default_deadline")]
    pub(crate) deadline_ms: u64,
    /// Kills it as soon as this holds.
    #[serde(default)]
    pub(crate) kill: Option<Kill>,
    /// Loads an honest extension beside the hostile one and checks at the end that it saw everything (N3).
    #[serde(default)]
    pub(crate) neighbour: bool,
    /// Globs that this run may change, in addition to those of the case.
    #[serde(default)]
    pub(crate) may_change: Vec<String>,
    #[serde(default)]
    pub(crate) expect: Expect,
    /// Expectations that replace the others under a policy or isolation, by its name.
    #[serde(default)]
    pub(crate) expect_under: BTreeMap<String, Expect>,
}

fn default_prompt() -> String {
    "attack".to_owned()
}

fn default_deadline() -> u64 {
    60_000
}

/// A user at a terminal.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Terminal {
    /// The user's inputs, in this order.
    pub(crate) answers: Vec<Typed>,
    /// Standard output is the terminal as well; otherwise only input and standard error are.
    pub(crate) stdout: bool,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Typed {
    /// Text that has to appear first, after that of the previous input.
    pub(crate) after: String,
    /// Pause in milliseconds after the text has appeared.
    #[serde(default)]
    pub(crate) pause_ms: u64,
    pub(crate) text: String,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Kill {
    /// A file that appears.
    #[serde(default)]
    pub(crate) when_file: Option<String>,
    /// A random time within this many milliseconds after the start; the message of a failure contains it.
    #[serde(default)]
    pub(crate) within_ms: Option<u64>,
    /// `KILL`, `TERM`, `HUP`, `INT`.
    #[serde(default = "default_signal")]
    pub(crate) signal: String,
}

fn default_signal() -> String {
    "KILL".to_owned()
}

/// Expectations on a run; all have to hold.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Expect {
    /// One exit code, or several.
    pub(crate) exit: Option<Exits>,
    pub(crate) stdout: Vec<String>,
    pub(crate) stderr: Vec<String>,
    /// Texts of the terminal's output, with its escape sequences.
    pub(crate) screen: Vec<String>,
    pub(crate) not_stdout: Vec<String>,
    pub(crate) not_stderr: Vec<String>,
    pub(crate) not_screen: Vec<String>,
    /// Values that the extension reported with `report(name, value)`: name to pattern.
    pub(crate) reports: Map<String, Value>,
    /// Names that must not be reported.
    pub(crate) not_reports: Vec<String>,
    /// Patterns; each has to match a line of the ledgers written so far.
    pub(crate) ledger: Vec<Value>,
    /// Patterns that match no line.
    pub(crate) not_ledger: Vec<Value>,
    /// Patterns; each has to match an entry of the sessions written so far.
    pub(crate) session: Vec<Value>,
    pub(crate) not_session: Vec<Value>,
    /// Patterns for the events of `--mode json`.
    pub(crate) events: Vec<Value>,
    pub(crate) not_events: Vec<Value>,
    /// A pattern for stdout, which is one JSON document.
    pub(crate) json: Option<Value>,
    /// Time limit; only a hang reaches it. Prolonged like `deadline_ms`.
    pub(crate) within_ms: Option<u64>,
    /// Requests to a server of the case: name of the server to patterns, all of them in order.
    pub(crate) requests: BTreeMap<String, Vec<Value>>,
    /// The signal by which the program may have ended (9 after a `kill`).
    pub(crate) signal: Option<i32>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub(crate) enum Exits {
    One(i32),
    OneOf(Vec<i32>),
}

impl Exits {
    pub(crate) fn contains(&self, code: i32) -> bool {
        match self {
            Self::One(one) => *one == code,
            Self::OneOf(all) => all.contains(&code),
        }
    }
}

/// An item of the file system. Without a kind it is an empty file.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Write {
    pub(crate) path: String,
    pub(crate) text: Option<String>,
    pub(crate) json: Option<Value>,
    pub(crate) hex: Option<String>,
    pub(crate) content: Option<Content>,
    /// A component of the items in this file of text, imports first; [`files::component`](crate::files::component) says more.
    pub(crate) component: Option<String>,
    /// Packages of one interface that its world imports beside those of `pi:extension`, by the name of the interface.
    pub(crate) imports: BTreeMap<String, String>,
    pub(crate) folder: bool,
    /// Target of a symbolic link.
    pub(crate) symlink: Option<String>,
    /// Another name of this file.
    pub(crate) hardlink: Option<String>,
    pub(crate) fifo: bool,
    pub(crate) socket: bool,
    /// Octal mode.
    pub(crate) mode: Option<String>,
    /// A sparse file of this many bytes.
    pub(crate) sparse: Option<u64>,
}

/// Text that is too large or too odd to be written in the case.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Content {
    #[serde(default)]
    pub(crate) before: String,
    /// Hex in place of `repeat`.
    #[serde(default)]
    pub(crate) hex: Option<String>,
    #[serde(default)]
    pub(crate) repeat: String,
    #[serde(default = "once")]
    pub(crate) times: usize,
    #[serde(default)]
    pub(crate) after: String,
    /// Number of times that gzip is applied to all of it.
    #[serde(default)]
    pub(crate) gzip: usize,
}

fn once() -> usize {
    1
}

/// Changes bytes of the files that match `path`, a glob. Fails when none does, or when nothing changes.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Edit {
    pub(crate) path: String,
    pub(crate) replace: Option<(String, String)>,
    pub(crate) append: Option<String>,
    pub(crate) append_hex: Option<String>,
    /// Keeps this many bytes.
    pub(crate) truncate: Option<u64>,
    /// Cuts this many bytes off the end.
    pub(crate) cut: Option<u64>,
    /// Inverts the byte here; negative counts from the end.
    pub(crate) flip: Option<i64>,
    /// Removes the line of this number (from 1; negative from the end).
    pub(crate) remove_line: Option<i64>,
    pub(crate) swap_lines: Option<(i64, i64)>,
    pub(crate) copy_line: Option<(i64, i64)>,
    /// A JSON merge patch.
    pub(crate) patch: Option<Value>,
    /// Octal mode.
    pub(crate) mode: Option<String>,
    /// Copies another file over it.
    pub(crate) copy_from: Option<String>,
}

/// A package of the fake registry.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Publish {
    pub(crate) name: String,
    pub(crate) version: String,
    /// Members in addition to `name`, `version` and `pi.extensions: ["./index.ts"]`.
    pub(crate) manifest: Map<String, Value>,
    /// Files in addition to an `index.ts` that registers the command `hello`.
    pub(crate) files: BTreeMap<String, String>,
    /// The archive itself, in place of `manifest` and `files`.
    pub(crate) archive: Option<Archive>,
    /// Merge patch of the registry's document of this version; `dist` is inside.
    pub(crate) says: Option<Value>,
}

/// An archive, entry by entry.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Archive {
    pub(crate) entries: Vec<Entry>,
    /// Starts with `package/package.json` and `package/index.ts` of an honest package.
    pub(crate) honest: bool,
    /// Omits the end marker.
    pub(crate) no_end: bool,
    pub(crate) gzip: Gzip,
}

/// One entry of a tar archive.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Entry {
    pub(crate) path: String,
    /// The name's bytes, if they are not UTF-8.
    pub(crate) path_hex: Option<String>,
    /// `file` (default), `folder`, `symlink`, `hardlink`, `fifo`, `char`, `block`, `contiguous`, `pax`, `global`,
    /// `long-name`, `long-link`, `sparse`, `end` (an end marker, although more comes), or one character.
    pub(crate) kind: Option<String>,
    pub(crate) link: String,
    pub(crate) text: String,
    pub(crate) content: Option<Content>,
    /// Records of a `pax` or `global` entry.
    pub(crate) pax: Vec<(String, String)>,
    /// The size in the header, if it is false.
    pub(crate) size: Option<u64>,
    /// Octal mode.
    pub(crate) mode: Option<String>,
    /// Number of copies of the entry; `@@n@@` in `path` counts.
    pub(crate) times: Option<usize>,
}

/// A defect of the compressed stream.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Gzip {
    #[default]
    Honest,
    TwoMembers,
    Trailing,
    WrongSum,
    Truncated,
    LongName,
    Absent,
}

/// The registry's response for a path.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum RegistryReply {
    Redirect(String),
    Status(u16),
    Silence,
    Body(Content),
}

/// One response of a server of the case.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Reply {
    pub(crate) status: Option<u16>,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
    pub(crate) content: Option<Content>,
    /// Blocks of server-sent events, written one by one.
    pub(crate) sse: Vec<String>,
    /// Never ends the response.
    pub(crate) stall: bool,
    /// Milliseconds between two bytes.
    pub(crate) drip_ms: Option<u64>,
    /// Bytes in place of everything else.
    pub(crate) raw: Option<String>,
    /// Bytes that are repeated without end after the response.
    pub(crate) endless: Option<String>,
}

/// Expectations on the file system.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Files {
    /// Globs that match something.
    pub(crate) exist: Vec<String>,
    /// Globs that match nothing.
    pub(crate) absent: Vec<String>,
    /// Files to the text they contain.
    pub(crate) contain: BTreeMap<String, String>,
    pub(crate) not_contain: BTreeMap<String, String>,
    /// Files to the whole of their text.
    pub(crate) equal: BTreeMap<String, String>,
    /// Files to their octal mode.
    pub(crate) mode: BTreeMap<String, String>,
    /// Pairs of files with equal bytes.
    pub(crate) same: Vec<(String, String)>,
}

/// Returns all cases, by id.
pub(crate) fn read_all() -> Result<BTreeMap<String, (PathBuf, Case)>, String> {
    let folder = folder();
    let mut cases = BTreeMap::new();
    let entries = std::fs::read_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    for entry in entries.flatten() {
        let path = entry.path();
        let file = path.join("case.json");
        let id = entry.file_name().to_string_lossy().into_owned();
        if !file.is_file() {
            if path.is_dir() && id != "support" {
                return Err(format!("attacks/{id} has no case.json"));
            }
            continue;
        }
        let text = std::fs::read_to_string(&file).map_err(|error| format!("{}: {error}", file.display()))?;
        let case: Case =
            serde_json::from_str(&text).map_err(|error| format!("tests/attacks/{id}/case.json: {error}"))?;
        check_steps(&case.steps).map_err(|error| format!("tests/attacks/{id}/case.json: {error}"))?;
        if case.steps.is_empty() && case.rust.is_empty() {
            return Err(format!("tests/attacks/{id}/case.json: neither steps nor Rust tests"));
        }
        cases.insert(id, (path, case));
    }
    Ok(cases)
}

fn check_steps(steps: &[Value]) -> Result<(), String> {
    for (at, step) in steps.iter().enumerate() {
        let step: Step = serde_json::from_value(step.clone()).map_err(|error| format!("step {}: {error}", at + 1))?;
        match step {
            Step::Parallel { lists } => lists.iter().try_for_each(|list| check_steps(list))?,
            Step::Repeat { steps, .. } => check_steps(&steps)?,
            // Names may stand for values there; those steps are parsed when they run.
            Step::Each { .. } => {}
            Step::Include { name } => check_steps(&included(&name)?)?,
            _ => {}
        }
    }
    Ok(())
}

/// Steps that several cases share.
pub(crate) fn included(name: &str) -> Result<Vec<Value>, String> {
    let path = folder().join("support").join(format!("{name}.json"));
    let text = std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    serde_json::from_str(&text).map_err(|error| format!("{}: {error}", path.display()))
}

/// Returns `tests/attacks`.
pub(crate) fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("attacks")
}
