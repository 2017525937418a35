//! The format of `case.json`, documented in `tests/attacks/README.md`.

use serde::Deserialize;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// One attack.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Case {
    /// The goal of the attacker, in one sentence.
    pub(crate) title: String,
    /// Values of `--policy` for each run of `pi -p`; each is a separate test.
    #[serde(default = "default_policies")]
    pub(crate) policies: Vec<String>,
    /// Values of `--isolation`; each is a separate test.
    #[serde(default = "default_isolations")]
    pub(crate) isolations: Vec<String>,
    /// Another case whose files this case shares; a file in this case's folder replaces the shared one.
    pub(crate) files_of: Option<String>,
    /// The platforms that can run the case. On other systems it counts as present, without a run.
    #[serde(default)]
    pub(crate) platform: Option<Platform>,
    /// The steps, each a [`Step`], which is parsed after names in it (`@@project@@`) are replaced.
    #[serde(default)]
    pub(crate) steps: Vec<Value>,
    /// Invariants in addition to those that apply to every case (see `invariants.rs`).
    #[serde(default)]
    pub(crate) holds: Vec<Invariant>,
    /// Globs below the world that a `pi` step may change despite N4 or N8.
    #[serde(default)]
    pub(crate) may_change: Vec<String>,
    /// Guards that the case depends on; the guards in `a+b` are lowered together.
    #[serde(default)]
    pub(crate) guards: Vec<Guard>,
    /// The reason why no guard can be lowered; required in every case without guards.
    #[serde(default)]
    pub(crate) unguarded: Option<String>,
    /// Rust tests of this case, as `path/of/file.rs#name_of_the_test`.
    #[serde(default)]
    pub(crate) rust: Vec<String>,
}

/// A guard such as `"fs.beneath"`, optionally with text that the failure of the red run must contain.
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
    /// One of `linux`, `macos`, `windows`.
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

/// Invariants from security.md 3.1. N5, N6 and N7 apply to every case.
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
    /// Creates a file, folder, link, fifo or socket.
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
        /// Folder of files that answer all other paths, in the way that a git repository is served.
        #[serde(default)]
        folder: Option<String>,
    },
    /// Runs another program (for setup such as `git init`), without canaries.
    Run {
        program: String,
        #[serde(default)]
        args: Vec<String>,
        #[serde(default)]
        cwd: Option<String>,
        #[serde(default)]
        env: BTreeMap<String, String>,
        /// Stores the program's standard output (trimmed) as `@@NAME@@`.
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
    /// Runs the steps once for each set of names. With a guard lowered, each of these runs has to fail.
    Each {
        of: Vec<Map<String, Value>>,
        steps: Vec<Value>,
    },
    /// Runs the steps of `support/NAME.json`.
    Include {
        name: String,
    },
    /// Checks the file system.
    Expect(Files),
}

/// An artifact that differs from the compiler's output for its sources. All digests in it match.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Forged {
    pub(crate) path: String,
    /// The extension that the artifact is built from.
    pub(crate) of: String,
    /// A merge patch for the artifact's metadata.
    #[serde(default)]
    pub(crate) metadata: Option<Value>,
    /// Replaces the bytecode of the first module with that of this extension.
    #[serde(default)]
    pub(crate) bytecode_of: Option<String>,
    /// Modules to add: specifier to source.
    #[serde(default)]
    pub(crate) modules: BTreeMap<String, String>,
    /// Replaces the source of the first module.
    #[serde(default)]
    pub(crate) source: Option<String>,
}

/// The command line of `pi`, and the expected result.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Pi {
    /// The whole command line. The default is `-p PROMPT --model script:...`, with the members below.
    #[serde(default)]
    pub(crate) args: Option<Vec<String>>,
    #[serde(default = "default_prompt")]
    pub(crate) prompt: String,
    /// Runs a session at the terminal instead of a single prompt.
    #[serde(default)]
    pub(crate) interactive: bool,
    /// Files of the case that are passed with `-e`.
    #[serde(default)]
    pub(crate) extensions: Vec<String>,
    /// Replies of the scripted model; the default is `fine` for each request.
    #[serde(default)]
    pub(crate) model: Option<Vec<Value>>,
    /// Additional arguments.
    #[serde(default)]
    pub(crate) flags: Vec<String>,
    #[serde(default)]
    pub(crate) env: BTreeMap<String, String>,
    /// Environment variables of the runner to remove.
    #[serde(default)]
    pub(crate) without_env: Vec<String>,
    #[serde(default)]
    pub(crate) cwd: Option<String>,
    #[serde(default)]
    pub(crate) stdin: Option<String>,
    /// Uses a terminal instead of pipes, with a user's input.
    #[serde(default)]
    pub(crate) terminal: Option<Terminal>,
    /// Leaves the standard output unread until the program has exited.
    #[serde(default)]
    pub(crate) unread: bool,
    /// Time limit in milliseconds of a run that may hang; other runs have more time (`run::patience`).
    #[serde(default = "default_deadline")]
    pub(crate) deadline_ms: u64,
    /// Kills the program as soon as this condition is true.
    #[serde(default)]
    pub(crate) kill: Option<Kill>,
    /// Loads an honest extension in addition to the hostile one, and checks at the end that it received all events (N3).
    #[serde(default)]
    pub(crate) neighbour: bool,
    /// Globs that this run may change, in addition to those of the case.
    #[serde(default)]
    pub(crate) may_change: Vec<String>,
    #[serde(default)]
    pub(crate) expect: Expect,
    /// Expectations that replace `expect` under a policy or isolation, by its name.
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
    /// The user's inputs, in order.
    pub(crate) answers: Vec<Typed>,
    /// Whether standard output is the terminal too; otherwise only input and standard error are.
    pub(crate) stdout: bool,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Typed {
    /// Text that has to appear first, after the text of the previous input.
    pub(crate) after: String,
    /// Pause in milliseconds after the text has appeared.
    #[serde(default)]
    pub(crate) pause_ms: u64,
    pub(crate) text: String,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Kill {
    /// Waits until this file appears.
    #[serde(default)]
    pub(crate) when_file: Option<String>,
    /// Waits a random time of at most this many milliseconds after the start; a failure message contains the time.
    #[serde(default)]
    pub(crate) within_ms: Option<u64>,
    /// The signal: `KILL`, `TERM`, `HUP` or `INT`.
    #[serde(default = "default_signal")]
    pub(crate) signal: String,
}

fn default_signal() -> String {
    "KILL".to_owned()
}

/// Expectations on a run, which all have to be met.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Expect {
    /// The exit code, or several permitted ones.
    pub(crate) exit: Option<Exits>,
    pub(crate) stdout: Vec<String>,
    pub(crate) stderr: Vec<String>,
    /// Texts in the terminal's output, which includes escape sequences.
    pub(crate) screen: Vec<String>,
    pub(crate) not_stdout: Vec<String>,
    pub(crate) not_stderr: Vec<String>,
    pub(crate) not_screen: Vec<String>,
    /// Values that the extension reports with `report(name, value)`: name to pattern.
    pub(crate) reports: Map<String, Value>,
    /// Names that the extension must not report.
    pub(crate) not_reports: Vec<String>,
    /// Patterns, each of which has to match a line of the ledgers written so far.
    pub(crate) ledger: Vec<Value>,
    /// Patterns that must not match any line of the ledgers.
    pub(crate) not_ledger: Vec<Value>,
    /// Patterns, each of which has to match an entry of the sessions written so far.
    pub(crate) session: Vec<Value>,
    pub(crate) not_session: Vec<Value>,
    /// Patterns for the events of `--mode json`.
    pub(crate) events: Vec<Value>,
    pub(crate) not_events: Vec<Value>,
    /// A pattern for standard output, which has to be one JSON document.
    pub(crate) json: Option<Value>,
    /// Time limit in milliseconds, which only a hang reaches. Extended like `deadline_ms`.
    pub(crate) within_ms: Option<u64>,
    /// Requests that the case's servers receive: name of the server to patterns, which match all requests in order.
    pub(crate) requests: BTreeMap<String, Vec<Value>>,
    /// The signal that may terminate the program (9 after a `kill`).
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

/// A file system item to create. Without a kind it is an empty file.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Write {
    pub(crate) path: String,
    pub(crate) text: Option<String>,
    pub(crate) json: Option<Value>,
    pub(crate) hex: Option<String>,
    pub(crate) content: Option<Content>,
    /// Builds a component from the items in this text file, imports first; see [`files::component`](crate::files::component).
    pub(crate) component: Option<String>,
    /// Packages of one interface that the world imports in addition to `pi:extension`, by the name of the interface.
    pub(crate) imports: BTreeMap<String, String>,
    pub(crate) folder: bool,
    /// Creates a symbolic link to this target.
    pub(crate) symlink: Option<String>,
    /// Creates a hard link to this file.
    pub(crate) hardlink: Option<String>,
    pub(crate) fifo: bool,
    pub(crate) socket: bool,
    /// Mode in octal.
    pub(crate) mode: Option<String>,
    /// Creates a sparse file of this many bytes.
    pub(crate) sparse: Option<u64>,
}

/// Content that is too large or too unusual to be written in the case.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Content {
    #[serde(default)]
    pub(crate) before: String,
    /// Bytes in hexadecimal, instead of `repeat`.
    #[serde(default)]
    pub(crate) hex: Option<String>,
    #[serde(default)]
    pub(crate) repeat: String,
    #[serde(default = "once")]
    pub(crate) times: usize,
    #[serde(default)]
    pub(crate) after: String,
    /// Number of times that the whole content is compressed with gzip.
    #[serde(default)]
    pub(crate) gzip: usize,
}

fn once() -> usize {
    1
}

/// Changes bytes of the files that match the glob `path`. Fails if no file matches or no byte changes.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Edit {
    pub(crate) path: String,
    pub(crate) replace: Option<(String, String)>,
    pub(crate) append: Option<String>,
    pub(crate) append_hex: Option<String>,
    /// Truncates the file to this many bytes.
    pub(crate) truncate: Option<u64>,
    /// Removes this many bytes from the end.
    pub(crate) cut: Option<u64>,
    /// Inverts the byte at this offset; negative offsets count from the end.
    pub(crate) flip: Option<i64>,
    /// Removes the line with this number, counted from 1, or from the end if negative.
    pub(crate) remove_line: Option<i64>,
    pub(crate) swap_lines: Option<(i64, i64)>,
    pub(crate) copy_line: Option<(i64, i64)>,
    /// Applies a JSON merge patch.
    pub(crate) patch: Option<Value>,
    /// Mode in octal.
    pub(crate) mode: Option<String>,
    /// Overwrites the file with a copy of another.
    pub(crate) copy_from: Option<String>,
}

/// A package of the fake registry.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Publish {
    pub(crate) name: String,
    pub(crate) version: String,
    /// Manifest members in addition to `name`, `version` and `pi.extensions: ["./index.ts"]`.
    pub(crate) manifest: Map<String, Value>,
    /// Files in addition to an `index.ts` that registers the command `hello`.
    pub(crate) files: BTreeMap<String, String>,
    /// The archive to publish, instead of `manifest` and `files`.
    pub(crate) archive: Option<Archive>,
    /// Merge patch for the registry's document of this version, which includes `dist`.
    pub(crate) says: Option<Value>,
}

/// An archive, described entry by entry.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Archive {
    pub(crate) entries: Vec<Entry>,
    /// Whether the archive starts with `package/package.json` and `package/index.ts` of an honest package.
    pub(crate) honest: bool,
    /// Whether the end marker is omitted.
    pub(crate) no_end: bool,
    pub(crate) gzip: Gzip,
}

/// One entry of a tar archive.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Entry {
    pub(crate) path: String,
    /// The bytes of a name that is not UTF-8, in hexadecimal.
    pub(crate) path_hex: Option<String>,
    /// `file` (default), `folder`, `symlink`, `hardlink`, `fifo`, `char`, `block`, `contiguous`, `pax`, `global`, `long-name`,
    /// `long-link`, `sparse`, `end` (an end marker that more entries follow), or one character.
    pub(crate) kind: Option<String>,
    pub(crate) link: String,
    pub(crate) text: String,
    pub(crate) content: Option<Content>,
    /// The records of a `pax` or `global` entry.
    pub(crate) pax: Vec<(String, String)>,
    /// A false size for the header.
    pub(crate) size: Option<u64>,
    /// Mode in octal.
    pub(crate) mode: Option<String>,
    /// Number of copies of the entry; `@@n@@` in `path` is the index.
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
    /// Blocks of server-sent events, each written separately.
    pub(crate) sse: Vec<String>,
    /// Whether the response never ends.
    pub(crate) stall: bool,
    /// Delay in milliseconds between two bytes.
    pub(crate) drip_ms: Option<u64>,
    /// Raw bytes to send instead of a response.
    pub(crate) raw: Option<String>,
    /// Bytes to repeat endlessly after the response.
    pub(crate) endless: Option<String>,
}

/// Expectations on the file system.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Files {
    /// Globs that have to match an item.
    pub(crate) exist: Vec<String>,
    /// Globs that must not match any item.
    pub(crate) absent: Vec<String>,
    /// Text that each file has to contain, by path.
    pub(crate) contain: BTreeMap<String, String>,
    pub(crate) not_contain: BTreeMap<String, String>,
    /// The whole text of each file, by path.
    pub(crate) equal: BTreeMap<String, String>,
    /// Octal mode of each file, by path.
    pub(crate) mode: BTreeMap<String, String>,
    /// Pairs of files that must have equal bytes.
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
            // Names may be placeholders for values in these steps, so they are parsed when they run.
            Step::Each { .. } => {}
            Step::Include { name } => check_steps(&included(&name)?)?,
            _ => {}
        }
    }
    Ok(())
}

/// Returns the steps of `support/NAME.json`, which several cases share.
pub(crate) fn included(name: &str) -> Result<Vec<Value>, String> {
    let path = folder().join("support").join(format!("{name}.json"));
    let text = std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    serde_json::from_str(&text).map_err(|error| format!("{}: {error}", path.display()))
}

/// Returns the folder `tests/attacks`.
pub(crate) fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("attacks")
}
