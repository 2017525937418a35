//! Every method, op and parameter of a hostcall, in one place.
//!
//! A call names a connector (`method`); most take `params.op`. Paths are absolute or relative
//! to the session's working folder; host modules resolve them as Node would before calling.
//! A byte value is `{"$bytes": i}`. Where text is accepted (`data`, `input`, `body`) it stands
//! for its UTF-8 bytes.
//!
//! ## `fs`: Node's verbs
//!
//! | op | params | answer | capability |
//! |---|---|---|---|
//! | `open` | `path, flags?, mode?` | `{fd}` | `read`, or `write` when the flags can write, create or truncate |
//! | `close`, `fsync` | `fd` | `{}` | `read` (the handle was gated by `open`) |
//! | `read` | `fd, length, position?` | `{bytesRead, data: bytes}` | `read`, by handle |
//! | `write` | `fd, data, position?` | `{bytesWritten}` | `write`, by handle |
//! | `fstat` | `fd` | stat | `read`, by handle |
//! | `ftruncate` | `fd, len?` | `{}` | `write`, by handle |
//! | `readFile` | `path` or `fd`, `encoding?` | `{data: bytes}`, with `encoding: "utf8"` `{text}` | `read` |
//! | `writeFile`, `appendFile` | `path` or `fd`, `data, flag?, mode?` | `{}` | `write` |
//! | `stat`, `lstat` | `path` | stat | `read` |
//! | `readdir`, `opendir` | `path, recursive?` | `{entries: [{name, parent, kind}]}`; `parent` is relative to `path`, `""` at the top | `read` |
//! | `mkdir` | `path, recursive?, mode?` | `{first?}`, the first folder made | `write` |
//! | `mkdtemp` | `prefix` | `{path}` | `write` |
//! | `rm` | `path, recursive?, force?` | `{}` | `write` |
//! | `rmdir`, `unlink` | `path` | `{}` | `write` |
//! | `rename` | `from, to` | `{}` | `write`, both ends |
//! | `copyFile`, `cp` | `from, to`, `exclusive?`; `cp`: `recursive?, force?, errorOnExist?` | `{}` | `write` at `to`, read at `from` |
//! | `link` | `from, to` | `{}` | `write`, both ends |
//! | `symlink` | `target, path` | `{}` | `write` at `path`, read at what `target` names |
//! | `readlink` | `path` | `{target}` | `read` |
//! | `realpath` | `path` | `{path}` | `read` |
//! | `access` | `path, mode?` (Node's bits) | `{}` | `read` |
//! | `exists` | `path` | `{exists}` | `read` |
//! | `truncate` | `path, len?` | `{}` | `write` |
//! | `chmod` | `path, mode` | `{}` | `write` |
//! | `utimes` | `path, atimeMs, mtimeMs` | `{}` | `write` |
//! | `watch` | `path` | not supported: `invalid_request` | `read` |
//!
//! A stat is `{kind, dev, ino, mode, nlink, uid, gid, rdev, size, blksize, blocks, atimeMs,
//! mtimeMs, ctimeMs, birthtimeMs}`, times in milliseconds with a fraction, `kind` one of `file`,
//! `dir`, `symlink`, `fifo`, `socket`, `char`, `block`. A missing thing is
//! the error `io` with `details {errno, syscall, path, dest?}` and Node's message.
//!
//! ## The others
//!
//! | method | params | answer | capability |
//! |---|---|---|---|
//! | `exec` | `command, args?, cwd?, env?, timeout?, input?, maxBuffer?, encoding?, stream?` | `{stdout, stderr, code, killed, signal, error?}`; with `stream` chunks `{stdout}` or `{stderr}` of bytes before it | `exec` |
//! | `http` | `url, method?, headers?, body?, redirect?, stream?` | `{status, statusText, headers: [[name, value]], url, redirected, body: bytes}`; with `stream` the head first, then chunks `{body}` | `http` |
//! | `env` | `op: "get"`, `names` | `{values}`; a missing variable has no member | `env` |
//! | `tool` | `name, input` | what the tool returns | by `name`, see [`mod@crate::derive`] |
//! | `session` | `op` of [`SESSION_OPS`], and its members | op-specific | `session`, `session.inject` or `session.control` |
//! | `ui` | `op` of [`UI_OPS`], and its members | op-specific | `ui` |
//! | `tools` | `op`: `list`, `active` | `{tools}` | `tools` |
//! | `events` | `op: "emit"`, `channel, data` | `{}` | `events` |
//! | `log` | `level, message` (or `event`), `data?` | `{}` | `log` |
//! | `module` | `op: "compile"`, `specifier, referrer` | module-specific | `module` |
//! | `timer` | `op: "sleep"`, `ms` | `{}` | `timer` |

/// Capabilities that the core can derive or that hold for things other than hostcalls, each
/// with the words a person reads in a prompt.
pub const CAPABILITIES: &[(&str, &str)] = &[
    ("read", "read files"),
    ("write", "create, change and delete files"),
    ("exec", "run programs"),
    ("http", "talk to servers"),
    ("env", "read environment variables"),
    ("tool", "call a tool of unknown effect"),
    ("session", "keep its own entries in the session"),
    ("session.inject", "put messages into the conversation with the model"),
    ("session.control", "steer the session: model, tools, abort, new session"),
    ("ui", "show notices and ask you questions"),
    ("tools", "see and register tools"),
    ("events", "exchange events with other extensions"),
    ("log", "write to its log"),
    ("module", "load more of its own code"),
    ("timer", "wait"),
    ("verdict", "stop and retry what the model is writing"),
    ("context.modify", "change what is sent to the model"),
    ("tool.modify", "change or block tool calls and their results"),
    ("prompt.modify", "change the system prompt"),
    ("provider", "register model providers and see requests to them"),
    ("commands", "register slash commands"),
    ("trust", "take part in trust decisions"),
];

/// Ops of `fs`: name, and whether it needs `write`. `open` is decided by its flags.
pub const FS_OPS: &[(&str, FsNeeds)] = &[
    ("access", FsNeeds::Path),
    ("appendFile", FsNeeds::WritePathOrHandle),
    ("chmod", FsNeeds::WritePath),
    ("close", FsNeeds::Handle),
    ("copyFile", FsNeeds::Copy),
    ("cp", FsNeeds::Copy),
    ("exists", FsNeeds::Path),
    ("fstat", FsNeeds::Handle),
    ("fsync", FsNeeds::Handle),
    ("ftruncate", FsNeeds::WriteHandle),
    ("link", FsNeeds::WriteBoth),
    ("lstat", FsNeeds::Path),
    ("mkdir", FsNeeds::WritePath),
    ("mkdtemp", FsNeeds::WritePrefix),
    ("open", FsNeeds::Flags),
    ("opendir", FsNeeds::Path),
    ("read", FsNeeds::Handle),
    ("readFile", FsNeeds::PathOrHandle),
    ("readdir", FsNeeds::Path),
    ("readlink", FsNeeds::Path),
    ("realpath", FsNeeds::Path),
    ("rename", FsNeeds::WriteBoth),
    ("rm", FsNeeds::WritePath),
    ("rmdir", FsNeeds::WritePath),
    ("stat", FsNeeds::Path),
    ("symlink", FsNeeds::Symlink),
    ("truncate", FsNeeds::WritePath),
    ("unlink", FsNeeds::WritePath),
    ("utimes", FsNeeds::WritePath),
    ("watch", FsNeeds::Path),
    ("write", FsNeeds::WriteHandle),
    ("writeFile", FsNeeds::WritePathOrHandle),
];

/// Which members of an `fs` op name files, and what is needed there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FsNeeds {
    /// Read at `path`.
    Path,
    /// Read at `path`, or an open `fd`.
    PathOrHandle,
    /// An open `fd`.
    Handle,
    /// Write at `path`.
    WritePath,
    /// Write at `path`, or an open `fd`.
    WritePathOrHandle,
    /// An open `fd`, for writing.
    WriteHandle,
    /// Write at what `prefix` begins.
    WritePrefix,
    /// Write at `from` and `to`.
    WriteBoth,
    /// Read at `from`, write at `to`.
    Copy,
    /// Write at `path`, read at `target` seen from the folder of `path`.
    Symlink,
    /// By `flags`, at `path`.
    Flags,
}

/// Ops of `session`, with the capability each needs.
pub const SESSION_OPS: &[(&str, &str)] = &[
    ("append_entry", "session"),
    ("set_label", "session"),
    ("set_session_name", "session"),
    ("wait_for_idle", "session"),
    ("send_message", "session.inject"),
    ("send_user_message", "session.inject"),
    ("abort", "session.control"),
    ("compact", "session.control"),
    ("fork", "session.control"),
    ("navigate_tree", "session.control"),
    ("new_session", "session.control"),
    ("reload", "session.control"),
    ("set_active_tools", "session.control"),
    ("set_model", "session.control"),
    ("set_thinking_level", "session.control"),
    ("shutdown", "session.control"),
    ("switch_session", "session.control"),
];

/// Ops of `ui`.
pub const UI_OPS: &[&str] = &[
    "select",
    "confirm",
    "input",
    "editor",
    "custom",
    "notify",
    "set_status",
    "set_widget",
    "set_title",
    "set_header",
    "set_footer",
    "set_working_message",
    "set_editor_text",
    "get_editor_text",
    "paste_to_editor",
    "set_theme",
];

/// Environment variables that need no asking.
pub const PLAIN_ENV: &[&str] = &["CI", "HOME", "LANG", "NO_COLOR", "PATH", "SHELL", "TERM", "TMPDIR", "USER"];

/// Programs that run what their arguments say: a grant for one of them with arguments is a
/// grant for everything (rule R54), so prompts show them in full.
pub const INTERPRETERS: &[&str] = &[
    "awk",
    "bash",
    "bun",
    "busybox",
    "cmd",
    "dash",
    "deno",
    "doas",
    "env",
    "find",
    "fish",
    "git",
    "make",
    "nice",
    "node",
    "nohup",
    "npm",
    "npx",
    "perl",
    "php",
    "pi",
    "pnpm",
    "powershell",
    "pwsh",
    "python",
    "python3",
    "ruby",
    "sh",
    "ssh",
    "sudo",
    "tar",
    "time",
    "timeout",
    "tsx",
    "xargs",
    "yarn",
    "zsh",
];

/// Capabilities that naming a file with `-e` grants beside what needs no asking (design,
/// section 13): model-facing ones, never files outside, programs, servers or the environment.
pub const MODEL_FACING: &[&str] = &[
    "commands",
    "context.modify",
    "events",
    "prompt.modify",
    "session.control",
    "session.inject",
    "tool.modify",
    "tools",
    "verdict",
];
