//! Lists every method, op and parameter of a hostcall.
//!
//! [`pijs_protocol::call`] declares ops and parameters of most methods as enums; the tables here add answers and capabilities. A
//! call names a connector (`method`); most take `params.op`. Paths are absolute or relative to the session's working folder; host
//! modules resolve them as Node would before calling. A byte value is `{"$bytes": i}`. Text is accepted for bytes in `data`,
//! `input` and `body`, and means its UTF-8 bytes.
//!
//! ## `fs`: Node's verbs
//!
//! | op | params | answer | capability |
//! |---|---|---|---|
//! | `open` | `path, flags?, mode?` | `{fd}` | `read`, or `write` when the flags can write, create or truncate |
//! | `close`, `fsync`, `fdatasync` | `fd` | `{}` | `read` (the handle was gated by `open`) |
//! | `read` | `fd, length, position?` | `{bytesRead, data: bytes}` | `read`, by handle |
//! | `write` | `fd, data, position?` | `{bytesWritten}` | `write`, by handle |
//! | `fstat` | `fd` | stat | `read`, by handle |
//! | `ftruncate` | `fd, len?` | `{}` | `write`, by handle |
//! | `fchmod` | `fd, mode` | `{}` | `write`, by handle |
//! | `futimes` | `fd, atimeMs, mtimeMs` | `{}` | `write`, by handle |
//! | `readFile` | `path` or `fd`, `encoding?` | `{data: bytes}`, with `encoding: "utf8"` `{text}` | `read` |
//! | `writeFile`, `appendFile` | `path` or `fd`, `data, flag?, mode?` | `{}` | `write` |
//! | `stat`, `lstat` | `path` | stat | `read` |
//! | `statfs` | `path` | `{type, bsize, blocks, bfree, bavail, files, ffree}` of the file system that contains the path, as `statfs(2)` reports them; Linux only | `read` |
//! | `readdir`, `opendir` | `path, recursive?` | `{entries: [{name, parent, kind}]}`; `parent` is relative to `path`, `""` at the top | `read` |
//! | `mkdir` | `path, recursive?, mode?` | `{first?}`, the first folder that was created | `write` |
//! | `mkdtemp` | `prefix` | `{path}` | `write` |
//! | `rm` | `path, recursive?, force?` | `{}` | `write` |
//! | `rmdir`, `unlink` | `path` | `{}` | `write` |
//! | `rename` | `from, to` | `{}` | `write`, both ends |
//! | `copyFile`, `cp` | `from, to`, `exclusive?`; `cp`: `recursive?, force?, errorOnExist?` | `{}` | `write` at `to`, read at `from` |
//! | `link` | `from, to` | `{}` | `write`, both ends |
//! | `symlink` | `target, path` | `{}` | `write` at `path`, read at `target` |
//! | `readlink` | `path` | `{target}` | `read` |
//! | `realpath` | `path` | `{path}` | `read` |
//! | `access` | `path, mode?` (Node's bits) | `{}` | `read` |
//! | `exists` | `path` | `{exists}` | `read` |
//! | `truncate` | `path, len?` | `{}` | `write` |
//! | `chmod` | `path, mode` | `{}` | `write` |
//! | `utimes`, `lutimes` | `path, atimeMs, mtimeMs` | `{}` | `write` |
//! | `watch` | `path, recursive?`; asynchronous only | chunks `{ready: true}`, then `{event: "rename" / "change", name}` until the call is cancelled; `{event: "overflow"}` when some were lost | `read` |
//!
//! Read and write streams and `FileHandle` use `open`, then `read` and `write` by handle. A write of more than the system takes
//! at once may be short: `bytesWritten` is the number of written bytes. A `watch` ends when it is cancelled, or with the last
//! chunk `{gone: true}` when the watched path itself was removed; `name` is relative to `path`, with `/`.
//!
//! A stat is `{kind, dev, ino, mode, nlink, uid, gid, rdev, size, blksize, blocks, atimeMs, mtimeMs, ctimeMs, birthtimeMs}`,
//! times in milliseconds with a fraction, `kind` one of `file`, `dir`, `symlink`, `fifo`, `socket`, `char`, `block`. A missing
//! path is the error `io` with `details {errno, syscall, path, dest?}` and Node's message.
//!
//! ## Other methods
//!
//! | method | params | answer | capability |
//! |---|---|---|---|
//! | `exec` | see below | | `exec` |
//! | `http` | `url, method?, headers?, body?, redirect?, stream?, upload?` | `{status, statusText, headers: [[name, value]], url, redirected, body: bytes}`; with `stream` the head first, then chunks `{body}` | `http` |
//! | `http` | `op: "lookup"`, `url` | `{addresses: [{address, family: 4 / 6}]}` of the URL's host; all addresses are public | `http` |
//! | `http` | `op: "send"`, `upload, data` or `op: "finish"`, `upload` | `{}` | `http` (the request was gated) |
//! | `env` | `op: "get"`, `names` | `{values}`; a missing variable has no member | `env` |
//! | `tool` | `name, input` | the tool's result | by `name`, see [`mod@crate::derive`] |
//! | `session` | `op` of [`SESSION_OPS`], and its members | op-specific | `session`, `session.inject` or `session.control` |
//! | `ui` | `op` of [`UI_OPS`], and its members | op-specific | `ui` |
//! | `tools` | `op`: `list`, `active` | `{tools}` | `tools` |
//! | `events` | `op: "emit"`, `channel, data` | `{}` | `events` |
//! | `log` | `level, message` (or `event`), `data?` | `{}` | `log` |
//! | `module` | `op: "quote"`, `message, module, line, column` | V8's message for an error at the position: `message`, or null | `module` |
//! | | `op: "source"`, `module, line, column` | the text of the function that begins at the position: `text`, or null | `module` |
//! | | `op: "compile"`, `path?, bytes, digest` (`sha256:HEX` of the text), `probe?` | `{}`: the realm may compile that file as a module, or without a path a text as a script; a probe does not prompt | `eval` |
//! | `timer` | `op: "sleep"`, `ms` | `{}` | `timer` |
//! | `rummy.entries` | `method, args, ticket?`: a method of the entry store of a rummy session | `{value, changes}` | `session` |
//! | `rummy.db` | `op: "run" / "get" / "all"`, `statement, params?`: a named statement of it | `{value}` | `session` |
//!
//! A request with `upload: ID` (a string of the caller's choice, one per request in flight) has no `body`: its body consists of
//! the data of `send` calls with that ID, in order, until `finish`. A `send` is answered when the connection has taken the data,
//! so awaiting it provides backpressure. `redirect: "follow"` then only follows redirects that need no second body.
//!
//! ## `net`: connections; asynchronous
//!
//! | op | params | answer | capability |
//! |---|---|---|---|
//! | `connect` | `socket`, `host, port` or `path` | chunks `{connected: {localAddress, localPort, remoteAddress, remotePort, family}}`, `{data: bytes}`, `{end: true}`; lives until it is cancelled, which closes the connection | `http` at host and port, or `write` at the path |
//! | `connect` with `tls: {ca?: [PEM], alpn?: [text]}` | the same, a host | the same, `connected` also has `protocol, cipher, alpn`; a certificate that is not valid for the host is an `io` error with Node's code | the same |
//! | `connect` with `protocol: "http"` | the same: HTTP requests only, whatever else is granted. Without it any bytes may be written if a grant with `tcp://` covers the server; otherwise the connection is limited to HTTP requests for the host as well | the same | the same |
//! | `listen` | `server`, `host, port` or `path` | chunks `{listening: {address, port, family}}`, `{connection: name, about}` with the members of `connected`; until the server is closed or cancelled | the same; loopback only |
//! | `accept` | `socket`: the name of a connection | like `connect` | by handle, like the ops below |
//! | `close` | `server` | `{}`; its `listen` ends when the server has stopped listening; connections stay open | |
//! | `refuse` | `socket` | `{}`; closes a connection that was not accepted yet | |
//! | `write` | `socket, data` | `{}` when the connection has taken the data | |
//! | `end` | `socket` | `{}`; the peer sees the end of the stream | |
//!
//! `socket` and `server` are names that the caller chooses. `localhost` is `127.0.0.1`. An address that is not public must be
//! named by the user with its port, or belong to a server of the same extension.
//!
//! ## `websocket`: connections of the web; asynchronous
//!
//! | op | params | answer | capability |
//! |---|---|---|---|
//! | `open` | `socket, url, protocols?, headers?` | chunks `{open: {protocol}}`, `{text}` or `{data: bytes}` for each message; ends with `{code, reason, clean}`; cancelling it drops the connection | `http` at the URL's host and port |
//! | `send` | `socket`, `text` or `data` | `{}` when the connection has taken the data | by handle, like `close` |
//! | `close` | `socket, code?, reason?` | `{}`; `open` ends when the peer has agreed | |
//!
//! Addresses are checked as for `net`.
//!
//! ## `sqlite`: databases; synchronous
//!
//! | op | params | answer | capability |
//! |---|---|---|---|
//! | `open` | `path` (`:memory:` is a new database in memory), `readOnly?, timeout?, noForeignKeys?` | `{db}` | `write`, or `read` with `readOnly`; no capability for a database in memory |
//! | `exec` | `db, sql` | `{}` | by handle, like the ops below |
//! | `prepare` | `db, sql` | `{columns: [{name, type}], parameters: [name or null], readOnly, expanded}` | |
//! | `run` | `db, sql, values?, named?` | `{changes, lastInsertRowid}` | |
//! | `all`, `get` | the same | `{columns, rows: [[value]]}` | |
//! | `close` | `db` | `{}` | |
//!
//! A value is null, a number, text, bytes, `{"$int": text}` for an integer beyond 2^53 and `{"$real": number}` for a value that
//! the database stores as a real. SQL that reaches other files (`ATTACH`, `VACUUM INTO`, extensions) is refused.
//!
//! ## `exec`: a program
//!
//! | op | params | answer |
//! |---|---|---|
//! | absent | `command, args?, cwd?, env?, inherits?, timeout?, input?, maxBuffer?, encoding?, stream?` | `{stdout, stderr, code, killed, signal, error?}`; with `stream` first a chunk `{pid}`, then chunks `{stdout}` or `{stderr}` of bytes |
//! | `spawn` | `command, args?, cwd?, env?, inherits?, stdin?` | `{pid}`, or `{error}` when the program could not be started; also synchronous |
//! | `wait` | `pid`, `timeout?`; asynchronous only, once per program | chunks `{stdout}` or `{stderr}` of bytes as they arrive, then `{code, signal, killed}` |
//! | `write` | `pid, data` | `{}` when the program's input took all of it; `io` `EPIPE` when the program has closed it |
//! | `end` | `pid` | `{}`; the program sees the end of its input |
//! | `kill` | `pid, signal?` (`"SIGTERM"`; a name, or a number), `group?` (the whole process group) | `{sent}`: false when the process has ended; `pid` is the id of a program or, where programs have a supervisor, of one of their children; also synchronous |
//! | `alive` | `pid` | `{error}`: null, `"EPERM"` or `"ESRCH"`, the result of `kill` without a signal, for any process; nothing is sent; also synchronous |
//!
//! With `inherits`, `env` is the extension's own environment rather than one made for this program: variables that no grant
//! permits are then left out instead of refused.
//!
//! `spawn` is decided like a call without `op`; the other ops concern a program of the same extension and need no further
//! decision. `stdin` is `"pipe"` (fed by `write`) or absent (empty). Output waits in the pipe until `wait` reads it, so `spawn`
//! followed by `wait` in the same task loses nothing. `code` is null after a signal, `signal` its name. A signal goes to the
//! program alone; cancelling the `wait` ends the program and all processes that it started (`SIGTERM`, a grace period of 2 s,
//! `SIGKILL`), and so does the end of the extension. `error` is `{errno, syscall, path, message}` as in Node.

//!
//! ## `mcp`: servers of the Model Context Protocol; asynchronous
//!
//! | op | params | answer | capability |
//! |---|---|---|---|
//! | `call` | `target` (`SERVER/TOOL`), `arguments?` | chunks `{progress, total?, message?}`, then the protocol's `CallToolResult` | `mcp` at the target |
//! | `prompt` | `target` (`SERVER/@prompts`), `name, arguments?` | `GetPromptResult` | the same |
//! | `list_resources`, `list_resource_templates` | `target` (`SERVER/@resources`), `cursor?` | the protocol's result | the same |
//! | `read_resource` | `target` (`SERVER/@resources`), `uri` | `ReadResourceResult` | the same |
//!
//! Servers are those of the session. Prompts show the annotations of tools (`readOnlyHint`); decisions ignore them.

/// Capabilities of hostcalls and of other features, each with its description in a prompt.
pub const CAPABILITIES: &[(&str, &str)] = &[
    ("read", "read files"),
    ("write", "create, change and delete files"),
    ("exec", "run programs"),
    ("http", "talk to servers"),
    ("mcp", "use tools of MCP servers"),
    ("env", "read environment variables"),
    ("tool", "call a tool of unknown effect"),
    ("session", "keep its own entries in the session"),
    ("session.inject", "put messages into the conversation with the model"),
    ("session.control", "steer the session: model, tools, abort, new session"),
    ("ui", "show notices and ask you questions"),
    ("tools", "see and register tools"),
    ("events", "exchange events with other extensions"),
    ("log", "write to its log"),
    ("module", "see the text of its own code"),
    ("eval", "run code that is not part of it"),
    ("timer", "wait"),
    ("verdict", "stop and retry what the model is writing"),
    ("context.modify", "change what is sent to the model"),
    ("tool.modify", "change or block tool calls and their results"),
    ("prompt.modify", "change the system prompt"),
    ("tool.shadow", "replace a built-in tool with its own"),
    ("provider", "register model providers and see requests to them"),
    ("compaction", "write the summary that replaces older conversation"),
    ("resources", "add skills, prompts and themes from outside of its package"),
    ("egress", "send data out after it read files that hold secrets"),
    ("commands", "register slash commands"),
    ("trust", "take part in trust decisions"),
];

/// Every method of a hostcall. Other methods are refused, even with a connector.
pub const METHODS: &[&str] = &[
    "env",
    "events",
    "exec",
    "fs",
    "http",
    "log",
    "mcp",
    "module",
    "net",
    "rummy.db",
    "rummy.entries",
    "session",
    "sqlite",
    "timer",
    "tool",
    "tools",
    "ui",
    "websocket",
];

/// Ops of `rummy.db`, which select the form of the result rows.
pub const RUMMY_DB_OPS: &[&str] = &["all", "get", "run"];

/// Ops of `session`, with the capability each needs.
pub const SESSION_OPS: &[(&str, &str)] = &[
    // An entry other than a message also needs `compaction`, `context.modify`, `prompt.modify` or `session.control`.
    ("append", "session.inject"),
    ("append_entry", "session"),
    ("set_label", "session"),
    ("set_session_name", "session"),
    ("wait_for_idle", "session"),
    ("send_message", "session.inject"),
    ("send_user_message", "session.inject"),
    ("ask_model", "session.inject"),
    // The extension chooses the server, which gets the same data as a registered provider.
    ("ask_model_at", "provider"),
    ("refresh_providers", "session"),
    ("list_models", "session"),
    // Reads the short form of the session, which every extension sees.
    ("read_entry", "session"),
    ("read_entries", "session"),
    ("set_leaf", "session.control"),
    ("start_session", "session.control"),
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
    "set_working_visible",
    "set_working_indicator",
    "set_hidden_thinking_label",
    "set_tools_expanded",
    "set_editor_component",
    "editor_text",
    "editor_submit",
    "editor_action",
    "add_autocomplete_provider",
    "suggest",
    "on_terminal_input",
    "end_terminal_input",
    "overlay",
    "answer",
    "drawn",
    "closed",
    "redraw",
];

/// Ops of `mcp`, with the part of the target after the server's name; `None` for the name of a tool.
pub const MCP_OPS: &[(&str, Option<&str>)] = &[
    ("call", None),
    ("list_resource_templates", Some("@resources")),
    ("list_resources", Some("@resources")),
    ("prompt", Some("@prompts")),
    ("read_resource", Some("@resources")),
];

/// Environment variables that need no consent.
pub const PLAIN_ENV: &[&str] = &["CI", "HOME", "LANG", "NO_COLOR", "PATH", "SHELL", "TERM", "TMPDIR", "USER"];

/// Further variables that need no consent to read: they describe the terminal and the folders of programs. Programs that
/// extensions run do not get these variables.
pub const FREE_ENV: &[&str] = &[
    "COLORFGBG",
    "COLORTERM",
    "COLUMNS",
    "EDITOR",
    "FORCE_COLOR",
    "ITERM_SESSION_ID",
    "KITTY_WINDOW_ID",
    "LANGUAGE",
    "LC_ALL",
    "LC_CTYPE",
    "LC_MESSAGES",
    "LINES",
    "LOGNAME",
    "NODE_ENV",
    "PAGER",
    "STY",
    "TERM_PROGRAM",
    "TERM_PROGRAM_VERSION",
    "TMUX",
    "TZ",
    "VISUAL",
    "WEZTERM_PANE",
    "WT_SESSION",
    "XDG_CACHE_HOME",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "XDG_STATE_HOME",
];

/// Returns whether a variable may be read without consent.
pub fn is_free_variable(name: &str) -> bool {
    PLAIN_ENV.contains(&name) || FREE_ENV.binary_search(&name).is_ok()
}

/// Capabilities that naming a file with `-e` grants in addition to the free ones: the model-facing ones, but never access to
/// files outside, programs, servers or the environment.
pub const MODEL_FACING: &[&str] = &[
    "commands",
    "compaction",
    "context.modify",
    "events",
    "prompt.modify",
    "provider",
    "session.control",
    "session.inject",
    "tool.modify",
    "tool.shadow",
    "tools",
    "verdict",
];

/// Capabilities without a subject that need no consent.
pub const FREE: &[&str] = &["commands", "events", "log", "module", "session", "timer", "tools", "ui"];

/// Names of pi's own tools. An extension's tool may replace one only with `tool.shadow`.
pub const BUILT_IN_TOOLS: &[&str] = &["bash", "edit", "find", "grep", "ls", "powershell", "read", "write"];
