//! Compiled scopes: where a capability may be used.
//!
//! Patterns are compiled once, when a grant is set. A missing list does not restrict; an empty
//! one allows nothing. Matching is on absolute, normalised names; the file connector repeats it
//! on the place it really reached.

use crate::derive::{Given, Input};
use crate::places::{Places, is_settings_name, normal};
use crate::variables::{Effect, Variable, VariablePattern, split_assignments};
use globset::{GlobBuilder, GlobMatcher};
use pijs_programs::{self as programs, Kind};
use pijs_protocol::guard;
use pijs_protocol::manifest::Scope;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

/// Longest pattern, so that compiling one stays cheap whatever a manifest holds.
const LONGEST_PATTERN: usize = 1024;
/// Most alternatives (`{a,b}`) in a pattern.
const MOST_BRACES: usize = 8;

/// Stands before a server to which any bytes may be sent, not only HTTP requests.
pub(crate) const RAW: &str = "tcp://";

/// A scope ready for matching.
#[derive(Debug, Clone, Default)]
pub struct CompiledScope {
    paths: Option<Vec<PathPattern>>,
    hosts: Option<Vec<HostPattern>>,
    env: Option<Vec<String>>,
    commands: Option<Vec<CommandPattern>>,
    /// Tools of MCP servers; or those of unknown effect, which no pattern says: only what a person allowed does.
    tools: Option<Vec<String>>,
}

/// A program and its leading arguments.
#[derive(Debug, Clone)]
struct CommandPattern {
    /// Variables that may be given, and those that have to be.
    variables: Vec<VariablePattern>,
    program: String,
    leading: Vec<String>,
    rest: Rest,
    /// The only working folder; any without it.
    folder: Folder,
    /// What the program runs from its standard input, where nothing else may follow.
    input: Input,
}

/// A program as a call starts it.
#[derive(Debug, Clone, Copy)]
pub struct Command<'a> {
    /// Its name, or its path.
    pub program: &'a str,
    /// Its arguments.
    pub args: &'a [&'a str],
    /// Where it works.
    pub folder: &'a Path,
    /// What it is given beside its arguments.
    pub given: &'a Given<'a>,
}

/// Which arguments may follow the named ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rest {
    /// Any that run nothing else, see [`pijs_programs`].
    Plain,
    /// Any at all: `git *`.
    Any,
    /// None: what a person allowed, and no more. Written as an empty word at the end, as sudo has it: `git log ""`. It is
    /// so allowed in the project's folder, since in another one the same words do something else.
    None,
}

/// The folders in which a program may work.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Folder {
    Any,
    One(PathBuf),
    /// Anywhere, and in the project alone where it does what files in its folder say; `own` is the extension's package there.
    Project {
        project: PathBuf,
        own: Option<PathBuf>,
    },
}

/// The word at the end of a command pattern after which nothing may follow.
const NOTHING_MORE: &str = "\"\"";

/// The pattern of exactly this program with exactly these arguments; `None` when none says that: words are told apart by
/// blanks, and some mean something.
pub(crate) fn exact_command(variables: &[(String, String)], command: &str, args: &[String]) -> Option<String> {
    let words: Vec<&str> = std::iter::once(command).chain(args.iter().map(String::as_str)).collect();
    let is_other =
        |word: &&str| word.is_empty() || matches!(*word, "*" | NOTHING_MORE) || word.contains(char::is_whitespace);
    // A program of this name would be read as a variable, and its first argument as the program.
    if words.iter().any(is_other) || VariablePattern::parse(command).is_some() {
        return None;
    }
    let assignments: Vec<String> = variables.iter().map(|(name, value)| format!("{name}={value}")).collect();
    if !assignments.iter().all(|word| VariablePattern::parse(word).is_some()) {
        return None;
    }
    let mut words: Vec<&str> = assignments.iter().map(String::as_str).chain(words).collect();
    if guard!(ExecExact) {
        words.push(NOTHING_MORE);
    }
    Some(words.join(" "))
}

#[derive(Debug, Clone)]
enum PathPattern {
    /// A file, or a folder and everything in it.
    Below(PathBuf),
    Glob(GlobMatcher),
}

#[derive(Debug, Clone)]
struct HostPattern {
    /// `example.com`, or `.example.com` for its sub-domains, or empty for any.
    name: String,
    sub_domains: bool,
    any: bool,
    port: Port,
    /// `tcp://` before it: raw connections, and nothing else.
    raw: bool,
}

/// What a pattern says of ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Port {
    /// The scheme's own.
    Usual,
    One(u16),
    /// `:*`.
    All,
}

impl Port {
    /// Whether `port` was written down, alone or among all of them.
    fn names(self, port: u16) -> bool {
        self == Self::All || self == Self::One(port)
    }
}

/// A scope that cannot be compiled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScopeError {
    /// The pattern.
    pub pattern: String,
    /// What is wrong with it.
    pub problem: String,
}

impl std::fmt::Display for ScopeError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "scope pattern {:?}: {}", self.pattern, self.problem)
    }
}

impl std::error::Error for ScopeError {}

impl CompiledScope {
    /// Compiles a scope for one extension.
    pub fn compile(scope: Option<&Scope>, places: &Places, package_root: Option<&Path>) -> Result<Self, ScopeError> {
        let Some(scope) = scope else { return Ok(Self::default()) };
        let paths = match &scope.paths {
            None => None,
            Some(patterns) => {
                let mut compiled = Vec::new();
                for pattern in patterns {
                    compiled.extend(compile_path(pattern, places, package_root)?);
                }
                Some(compiled)
            }
        };
        let hosts = match &scope.hosts {
            None => None,
            Some(patterns) => Some(patterns.iter().map(|pattern| compile_host(pattern)).collect::<Result<_, _>>()?),
        };
        let own = package_root.filter(|root| **root != places.project && root.starts_with(&places.project));
        let parse = |command: &String| CommandPattern::parse(command, &places.project, own);
        let commands = |commands: &Vec<String>| commands.iter().filter_map(parse).collect();
        let commands = scope.commands.as_ref().map(commands);
        Ok(Self { paths, hosts, env: scope.env.clone(), commands, tools: scope.tools.clone() })
    }

    /// A scope of exactly this program with exactly these arguments in this working folder.
    pub(crate) fn exactly_program(command: &str, args: &[&str], folder: Option<&Path>, given: &Given<'_>) -> Self {
        let pattern = CommandPattern {
            variables: given.asked().map(VariablePattern::exactly).collect(),
            program: command.to_owned(),
            leading: args.iter().map(|arg| (*arg).to_owned()).collect(),
            rest: Rest::None,
            folder: folder.map_or(Folder::Any, |folder| Folder::One(folder.to_owned())),
            input: given.input.clone(),
        };
        Self { commands: Some(vec![pattern]), ..Self::default() }
    }

    /// A scope of exactly this tool.
    pub(crate) fn exactly_tool(name: &str) -> Self {
        Self { tools: Some(vec![name.to_owned()]), ..Self::default() }
    }

    /// Whether a tool of unknown effect is inside.
    pub(crate) fn tool(&self, name: &str) -> bool {
        self.tools.as_ref().is_none_or(|tools| tools.iter().any(|known| known == name))
    }

    /// Whether something of an MCP server is inside: by its name, or with all that the server has.
    pub(crate) fn mcp(&self, target: &str) -> bool {
        let covers = |pattern: &String| {
            let server = pattern.strip_suffix('*').filter(|server| server.ends_with('/'));
            pattern == target || server.is_some_and(|server| target.starts_with(server))
        };
        self.tools.as_ref().is_none_or(|tools| tools.iter().any(covers))
    }

    /// A scope of exactly these paths (folders with what is in them).
    pub(crate) fn exactly(paths: Vec<PathBuf>) -> Self {
        Self { paths: Some(paths.into_iter().map(PathPattern::Below).collect()), ..Self::default() }
    }

    /// Whether an absolute, normalised path is inside.
    pub fn path(&self, path: &Path) -> bool {
        self.paths.as_ref().is_none_or(|patterns| {
            patterns.iter().any(|pattern| match pattern {
                PathPattern::Below(folder) => path.starts_with(folder),
                PathPattern::Glob(glob) => glob.is_match(path),
            })
        })
    }

    /// Returns the folder of each pattern that covers a path; `None` for one with wildcards, and for a scope without paths.
    pub(crate) fn patterns_at<'a>(&'a self, path: &'a Path) -> impl Iterator<Item = Option<&'a Path>> {
        let anywhere = self.paths.is_none().then_some(None);
        let patterns = self.paths.iter().flatten().filter_map(move |pattern| match pattern {
            PathPattern::Below(folder) => path.starts_with(folder).then_some(Some(folder.as_path())),
            PathPattern::Glob(glob) => glob.is_match(path).then_some(None),
        });
        anywhere.into_iter().chain(patterns)
    }

    /// Whether it says which paths it is about.
    pub(crate) fn has_paths(&self) -> bool {
        self.paths.is_some()
    }

    /// Whether it says which commands it is about.
    pub(crate) fn has_commands(&self) -> bool {
        self.commands.is_some()
    }

    /// Whether a pattern without wildcards names exactly this path: what a file that runs later
    /// needs.
    pub fn names_path(&self, path: &Path) -> bool {
        self.paths.as_ref().is_some_and(|patterns| {
            patterns.iter().any(|pattern| matches!(pattern, PathPattern::Below(named) if named == path))
        })
    }

    /// Whether a pattern that covers `path` names the folder or file of `home` that it lies in (`~/.config/x/**`), not all
    /// of the home: what a folder of settings needs.
    pub(crate) fn names_in_home(&self, path: &Path, home: &Path) -> bool {
        self.paths.as_ref().is_some_and(|patterns| {
            patterns.iter().any(|pattern| match pattern {
                PathPattern::Below(folder) => path.starts_with(folder) && folder != home && folder.starts_with(home),
                PathPattern::Glob(glob) => glob.is_match(path) && begins_in_settings(glob.glob().glob(), home),
            })
        })
    }

    /// Whether a server is inside. A pattern without a port means the scheme's own.
    pub fn host(&self, scheme: &str, host: &str, port: u16) -> bool {
        let fits = |pattern: &HostPattern| (!pattern.raw || scheme == "tcp") && pattern.covers(scheme, host, port);
        self.hosts.as_ref().is_none_or(|patterns| patterns.iter().any(fits))
    }

    /// Whether a pattern says that any bytes may be sent to a server: `tcp://` and the server.
    pub fn raw_host(&self, host: &str, port: u16) -> bool {
        let fits = |pattern: &HostPattern| pattern.raw && pattern.covers("tcp", host, port);
        self.hosts.as_ref().is_some_and(|patterns| patterns.iter().any(fits))
    }

    /// Whether the user named this very address and port: what a private address needs.
    pub fn names_address(&self, address: IpAddr, port: u16) -> bool {
        let name = match address {
            IpAddr::V4(address) => address.to_string(),
            IpAddr::V6(address) => format!("[{address}]"),
        };
        self.hosts.as_ref().is_some_and(|patterns| {
            patterns.iter().any(|pattern| !pattern.sub_domains && pattern.name == name && pattern.port.names(port))
        })
    }

    /// Whether the user named this machine by its name, `localhost`, with this very port.
    pub fn names_localhost(&self, port: u16) -> bool {
        let names =
            |pattern: &HostPattern| !pattern.sub_domains && pattern.name == "localhost" && pattern.port.names(port);
        self.hosts.as_ref().is_some_and(|patterns| patterns.iter().any(names))
    }

    /// Whether the user named this very host and port: an address, or `localhost`.
    pub(crate) fn names(&self, host: &str, port: u16) -> bool {
        match literal(host) {
            Some(address) => self.names_address(address, port),
            None => host == "localhost" && self.names_localhost(port),
        }
    }

    /// Whether a program may be run with some arguments, by its name or by its whole path.
    pub(crate) fn names_or_covers(&self, program: &Path) -> bool {
        let name = program.file_name().unwrap_or_default();
        let is_it = |pattern: &CommandPattern| Path::new(&pattern.program) == program || *pattern.program == *name;
        self.commands.as_ref().is_none_or(|commands| commands.iter().any(is_it))
    }

    /// Whether an environment variable is inside.
    pub fn env(&self, name: &str) -> bool {
        self.env.as_ref().is_none_or(|names| names.iter().any(|known| known == name))
    }

    /// Whether a program with these arguments is inside. A name without a slash only matches a
    /// command without one, which the search path resolves; a program elsewhere is named in full.
    ///
    /// The bare name of a tool that can be made to run others (`git -c alias.x='!sh' x`) covers its plain uses; `git *`
    /// covers all. `folder` is where it works, which matters to what a person allowed for one folder.
    pub fn command(&self, command: &Command<'_>) -> bool {
        let Command { program, args, folder, given } = *command;
        let covers = |pattern: &CommandPattern| {
            pattern.covers(program, args) && pattern.is_in(program, folder) && pattern.takes(given)
        };
        match &self.commands {
            Some(commands) => commands.iter().any(covers),
            None => given.asked().all(|variable| !is_steering(variable)),
        }
    }

    /// Whether a program with these arguments is refused by a scope that says what must not run: by one command line in its
    /// folder, or by the program's name and its leading arguments, wherever it lies, whatever follows and whatever it is given.
    pub(crate) fn refuses_command(&self, command: &Command<'_>) -> bool {
        let Command { program, args, folder, given } = *command;
        let is_named = |pattern: &CommandPattern| {
            (pattern.program == program || pattern.program == programs::name_of(program))
                && args.len() >= pattern.leading.len()
                && pattern.leading.iter().zip(args).all(|(leading, arg)| leading == arg)
        };
        let refuses = |pattern: &CommandPattern| match pattern.rest {
            Rest::None => pattern.covers(program, args) && pattern.is_in(program, folder) && pattern.takes(given),
            Rest::Plain | Rest::Any => is_named(pattern),
        };
        self.commands.as_ref().is_none_or(|commands| commands.iter().any(refuses))
    }

    /// Whether one variable of a program that is inside may be given.
    pub(crate) fn variable(&self, command: &Command<'_>, variable: &Variable<'_>) -> bool {
        let Command { program, args, folder, .. } = *command;
        let permits = |pattern: &CommandPattern| {
            pattern.covers(program, args) && pattern.is_in(program, folder) && pattern.permits(variable)
        };
        match &self.commands {
            Some(commands) => commands.iter().any(permits),
            None => !is_steering(variable),
        }
    }

    /// Whether every use of a program is inside, whatever it makes run: not as one of its plain uses, and not as an answer
    /// about one command line, which says nothing of what a repository's configuration makes of it.
    pub(crate) fn covers_every_use(&self, command: &str, args: &[&str]) -> bool {
        let covers = |pattern: &CommandPattern| pattern.rest == Rest::Any && pattern.covers(command, args);
        self.commands.as_ref().is_none_or(|commands| commands.iter().any(covers))
    }

    /// Whether a program with these arguments is inside whatever they make it do: not as one of its plain uses.
    pub(crate) fn means_command(&self, command: &str, args: &[&str]) -> bool {
        let means = |pattern: &CommandPattern| pattern.rest != Rest::Plain && pattern.covers(command, args);
        self.commands.as_ref().is_none_or(|commands| commands.iter().any(means))
    }

    /// Whether a program is named with its whole path, as one inside a writable folder must be.
    /// One that is named by a relative path is meant from `project`.
    pub fn names_program(&self, program: &Path, project: &Path) -> bool {
        let named = |word: &str| word.contains('/') && normal(project, Path::new(word)) == program;
        self.commands.as_ref().is_some_and(|commands| commands.iter().any(|pattern| named(&pattern.program)))
    }
}

impl HostPattern {
    fn covers(&self, scheme: &str, host: &str, port: u16) -> bool {
        let usual = if scheme == "https" { 443 } else { 80 };
        let port_fits = match self.port {
            Port::Usual => self.any || port == usual,
            written => written.names(port),
        };
        let name_fits = self.any
            || if self.sub_domains {
                host.strip_suffix(self.name.as_str()).is_some_and(|front| !front.is_empty())
            } else {
                host == self.name
            };
        port_fits && name_fits
    }
}

fn is_steering(variable: &Variable<'_>) -> bool {
    variable.effect == Effect::Steering && guard!(ExecEnv)
}

/// Whether a grant of plain uses, or of one command line, has to name a variable.
fn is_part_of_grant(variable: &Variable<'_>) -> bool {
    is_steering(variable) || (variable.effect == Effect::Open && guard!(ExecVariables))
}

/// Whether a host is this machine or in its networks, by what is written: such a one has to be named.
pub(crate) fn is_near(host: &str) -> bool {
    match literal(host) {
        Some(IpAddr::V4(address)) => {
            address.is_loopback() || address.is_private() || address.is_link_local() || address.is_unspecified()
        }
        Some(IpAddr::V6(address)) => {
            address.is_loopback()
                || address.is_unspecified()
                || address.is_unique_local()
                || address.is_unicast_link_local()
        }
        None => host == "localhost",
    }
}

/// The same for an address that carries another one inside: `[::ffff:127.0.0.1]`. Who connects judges it by that one.
pub(crate) fn is_near_inside(host: &str) -> bool {
    literal(host).is_some_and(|address| is_near(&address.to_canonical().to_string()))
}

pub(crate) fn literal(host: &str) -> Option<IpAddr> {
    let inner = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    inner.unwrap_or(host).parse().ok()
}

impl CommandPattern {
    /// `None` for a pattern without a program.
    /// `own` is the folder of the extension's package inside the project.
    fn parse(pattern: &str, project: &Path, own: Option<&Path>) -> Option<Self> {
        let (variables, words) = split_assignments(pattern);
        let mut words = words.into_iter().map(str::to_owned);
        let program = words.next()?;
        let mut leading: Vec<String> = words.collect();
        let rest = match leading.last().map(String::as_str) {
            Some("*") => Rest::Any,
            Some(NOTHING_MORE) => Rest::None,
            _ => Rest::Plain,
        };
        if rest != Rest::Plain {
            leading.pop();
        }
        let folder = match rest {
            Rest::None => Folder::One(project.to_owned()),
            Rest::Plain => Folder::Project { project: project.to_owned(), own: own.map(Path::to_owned) },
            Rest::Any => Folder::Any,
        };
        Some(Self { variables, program, leading, rest, folder, input: Input::Data })
    }

    /// Whether what a call gives the program beside its arguments is what the pattern says.
    fn takes(&self, given: &Given<'_>) -> bool {
        let has_all = self.variables.iter().all(|pattern| pattern.is_met(&given.variables));
        let is_asked = has_all || !guard!(ExecVariables);
        // The bare name of an interpreter covers anything.
        let is_meant = match self.rest {
            Rest::Any => true,
            Rest::None => false,
            Rest::Plain => self.leading.is_empty() && programs::kind_of(&self.program) != Kind::Options,
        };
        let is_same = is_meant || self.input == given.input || !guard!(ExecInput);
        is_asked && is_same && given.asked().all(|variable| self.permits(variable))
    }

    fn permits(&self, variable: &Variable<'_>) -> bool {
        let is_any = self.rest == Rest::Any && !is_steering(variable);
        is_any || self.variables.iter().any(|pattern| pattern.permits(variable)) || !is_part_of_grant(variable)
    }

    /// Whether a program may work in a folder. One that does what files there say may in the project, as far as that is not
    /// the extension's own. Who granted an interpreter's bare name meant that it runs anything.
    fn is_in(&self, program: &str, folder: &Path) -> bool {
        match &self.folder {
            Folder::Any => true,
            Folder::One(one) => one == folder || !guard!(ExecFolder),
            Folder::Project { project, own } => {
                let is_meant = self.leading.is_empty() && programs::kind_of(program) == Kind::Interpreter;
                let is_own = own.as_deref().is_some_and(|own| folder.starts_with(own));
                // What was installed there is a package's, too.
                let is_packages =
                    folder.strip_prefix(project).is_ok_and(|rest| rest.iter().any(|name| name == "node_modules"));
                is_meant
                    || (folder.starts_with(project) && !is_own && !is_packages)
                    || !programs::obeys_folder(program)
                    || !guard!(ExecObeyedFolder)
            }
        }
    }

    fn covers(&self, command: &str, args: &[&str]) -> bool {
        let named = self.leading.len();
        let begins = self.program == command
            && args.len() >= named
            && self.leading.iter().zip(args).all(|(want, have)| want == have);
        begins
            && match self.rest {
                Rest::None => args.len() == named,
                Rest::Any => true,
                // Who named an interpreter meant that it runs things.
                Rest::Plain => {
                    let runs_others =
                        programs::kind_of(command) == Kind::Options && !programs::is_plain(command, args, named);
                    let is_elsewhere = named > 0 && programs::names_folder(command, &args[named..]);
                    let is_other = guard!(ExecNamedOptions) && !programs::stays_as_named(command, args, named);
                    !is_other && (!(runs_others || is_elsewhere) || !guard!(ExecPlainUse))
                }
            }
    }
}

/// A pattern that means exactly this absolute path, as it is written into a grant.
pub(crate) fn escaped_path(path: &Path) -> String {
    let text = path.to_string_lossy();
    if text.contains(['*', '?', '[', '{']) { escaped(&text) } else { text.into_owned() }
}

/// Whether a pattern of paths begins with the home and the name of a folder of settings there.
fn begins_in_settings(pattern: &str, home: &Path) -> bool {
    let home = escaped(&home.to_string_lossy());
    let rest = pattern.strip_prefix(home.as_str()).and_then(|rest| rest.strip_prefix('/'));
    rest.and_then(|rest| rest.split('/').next()).is_some_and(is_settings_name)
}

/// A name in a pattern. The library leaves backslashes, which would take the brackets that it puts around wildcards.
fn escaped(name: &str) -> String {
    globset::escape(name).replace('\\', "\\\\")
}

fn compile_path(pattern: &str, places: &Places, package_root: Option<&Path>) -> Result<Vec<PathPattern>, ScopeError> {
    let fail = |problem: &str| ScopeError { pattern: pattern.to_owned(), problem: problem.to_owned() };
    if pattern.len() > LONGEST_PATTERN {
        return Err(fail("too long"));
    }
    if pattern.contains('\0') {
        return Err(fail("contains a null byte"));
    }
    if pattern.matches('{').count() > MOST_BRACES {
        return Err(fail("too many alternatives"));
    }
    let mut compiled = Vec::new();
    for (base, rest) in places.expand(pattern, package_root) {
        if !rest.contains(['*', '?', '[', '{']) {
            compiled.push(PathPattern::Below(normal(&base, Path::new(&rest))));
            continue;
        }
        if Path::new(&rest).iter().any(|name| name == "..") {
            return Err(fail("`..` beside a wildcard"));
        }
        let whole = if Path::new(&rest).is_absolute() {
            rest
        } else {
            // The base is a name, not a pattern.
            format!("{}/{}", escaped(&base.to_string_lossy()), rest.trim_start_matches("./"))
        };
        // `src/**` means the folder too, so that it can be listed.
        if let Some(folder) = whole.strip_suffix("/**")
            && !folder.contains(['*', '?', '[', '{'])
        {
            compiled.push(PathPattern::Below(PathBuf::from(folder)));
            continue;
        }
        let glob = GlobBuilder::new(&whole)
            .literal_separator(true)
            .backslash_escape(true)
            .build()
            .map_err(|error| fail(&error.kind().to_string()))?;
        compiled.push(PathPattern::Glob(glob.compile_matcher()));
    }
    Ok(compiled)
}

fn compile_host(pattern: &str) -> Result<HostPattern, ScopeError> {
    let fail = |problem: &str| ScopeError { pattern: pattern.to_owned(), problem: problem.to_owned() };
    let (raw, server) = match pattern.strip_prefix(RAW) {
        Some(server) => (true, server),
        None => (false, pattern),
    };
    if server == "*" {
        return Ok(HostPattern { name: String::new(), sub_domains: false, any: true, port: Port::Usual, raw });
    }
    let (sub_domains, rest) = match server.strip_prefix("*.") {
        Some(rest) => (true, rest),
        None => (false, server),
    };
    let (all_ports, rest) = match rest.strip_suffix(":*") {
        Some(rest) => (true, rest),
        None => (false, rest),
    };
    // The URL parser is the judge of what a host is: case, IDN and address forms come out as
    // they will in a request.
    let parse = |scheme: &str| {
        let url = url::Url::parse(&format!("{scheme}://{rest}/")).ok()?;
        let is_bare = url.username().is_empty() && url.password().is_none() && url.path() == "/";
        (is_bare && url.query().is_none() && url.fragment().is_none()).then_some(url)
    };
    // A scheme without a port of its own keeps every port that is written.
    let port = match parse("any").and_then(|url| url.port()) {
        Some(_) if all_ports => return Err(fail("two ports")),
        Some(port) => Port::One(port),
        None if all_ports => Port::All,
        None if raw => return Err(fail("a raw connection has no usual port: write one, or `:*` for all of them")),
        None => Port::Usual,
    };
    let host = parse("http").and_then(|url| url.host_str().map(str::to_owned));
    match host {
        Some(host) if !rest.contains('*') => {
            let host = host.strip_suffix('.').unwrap_or(&host).to_owned();
            let name = if sub_domains { format!(".{host}") } else { host };
            Ok(HostPattern { name, sub_domains, any: false, port, raw })
        }
        _ => Err(fail(
            "not a host name, an address, or `*.` before a name; a port, or `*` for all of them, follows a colon",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places() -> Places {
        Places::new("/projects/app", "/home/me", "/home/me/.pi/agent", "/tmp")
    }

    fn paths(patterns: &[&str]) -> CompiledScope {
        let scope = Scope { paths: Some(patterns.iter().map(|p| (*p).to_owned()).collect()), ..Scope::default() };
        CompiledScope::compile(Some(&scope), &places(), Some(Path::new("/pkg"))).unwrap()
    }

    fn hosts(patterns: &[&str]) -> CompiledScope {
        let scope = Scope { hosts: Some(patterns.iter().map(|p| (*p).to_owned()).collect()), ..Scope::default() };
        CompiledScope::compile(Some(&scope), &places(), None).unwrap()
    }

    #[test]
    fn an_empty_list_allows_nothing_and_a_missing_one_does_not_restrict() {
        assert!(!paths(&[]).path(Path::new("/projects/app/x")));
        assert!(CompiledScope::default().path(Path::new("/anything")));
        assert!(!hosts(&[]).host("https", "example.com", 443));
    }

    #[test]
    fn raw_connections_are_said_and_mean_nothing_else() {
        let scope = hosts(&["tcp://db.example:5432", "tcp://127.0.0.1:*", "api.example"]);
        assert!(scope.raw_host("db.example", 5432) && scope.host("tcp", "db.example", 5432));
        assert!(!scope.host("http", "db.example", 5432) && !scope.raw_host("db.example", 5433));
        assert!(scope.raw_host("127.0.0.1", 6379));
        assert!(scope.host("tcp", "api.example", 80) && !scope.raw_host("api.example", 80));
        assert!(hosts(&["tcp://*"]).raw_host("any.example", 7) && !hosts(&["*"]).raw_host("any.example", 7));
        assert!(!CompiledScope::default().raw_host("any.example", 7));
        let portless = Scope { hosts: Some(vec!["tcp://db.example".to_owned()]), ..Scope::default() };
        assert!(CompiledScope::compile(Some(&portless), &places(), None).is_err());
    }

    #[test]
    fn a_pattern_starts_at_the_project_and_stops_at_its_folder() {
        let scope = paths(&["src/**", "docs", "*.md", "<package>/data/**", "<temp>", "/srv/one.txt"]);
        for inside in ["src", "src/a/b", "docs", "docs/x", "a.md", "/pkg/data/x", "/tmp/x/y", "/srv/one.txt"] {
            assert!(scope.path(&normal(Path::new("/projects/app"), Path::new(inside))), "{inside}");
        }
        for outside in ["srcs/a", "x/a.md", "SRC/a", "/pkg/other", "/tmpx", "/srv/one.txt2", "/etc/passwd", "src/../x"]
        {
            assert!(!scope.path(&normal(Path::new("/projects/app"), Path::new(outside))), "{outside}");
        }
    }

    #[test]
    fn a_base_folder_with_glob_characters_is_a_name() {
        let places = Places::new("/projects/[a]*", "/home/me", "/home/me/.pi/agent", "/tmp");
        let scope = Scope { paths: Some(vec!["*.md".into()]), ..Scope::default() };
        let scope = CompiledScope::compile(Some(&scope), &places, None).unwrap();
        assert!(scope.path(Path::new("/projects/[a]*/x.md")));
        assert!(!scope.path(Path::new("/projects/ab/x.md")));
    }

    /// In patterns a backslash takes the meaning of what follows; in names it is a character.
    #[test]
    fn a_backslash_in_a_name_is_a_character() {
        let places = Places::new("/projects/a\\b", "/home/me", "/home/me/.pi/agent", "/tmp");
        let compile = |patterns: &[&str]| {
            let scope = Scope { paths: Some(patterns.iter().map(|p| (*p).to_owned()).collect()), ..Scope::default() };
            CompiledScope::compile(Some(&scope), &places, None).expect("it compiles")
        };
        let scope = compile(&["*.md"]);
        assert!(scope.path(Path::new("/projects/a\\b/x.md")));
        assert!(!scope.path(Path::new("/projects/ab/x.md")));
        for name in ["/data/a\\*b", "/data/a\\b", "/data/\\{x", "/data/[x]\\"] {
            let scope = compile(&[&escaped_path(Path::new(name))]);
            assert!(scope.path(Path::new(name)), "{name}");
            for other in ["/data/a[xb", "/data/a\\xb", "/data/ab", "/data/[x", "/data/x", "/data/x\\", "/data/{x"] {
                assert!(!scope.path(Path::new(other)), "{name} is not {other}");
            }
        }
    }

    #[test]
    fn pattern_bombs_are_refused() {
        let compiles = |pattern: String| {
            let scope = Scope { paths: Some(vec![pattern]), ..Scope::default() };
            CompiledScope::compile(Some(&scope), &places(), None).is_ok()
        };
        for bad in ["{a,b}".repeat(MOST_BRACES + 1), "x".repeat(LONGEST_PATTERN + 1), "a/../*".into(), "a\0b".into()] {
            assert!(!compiles(bad.clone()), "{bad:?}");
        }
        assert!(compiles("{a,b}".repeat(MOST_BRACES)) && compiles("x".repeat(LONGEST_PATTERN)));
    }

    #[test]
    fn hosts_match_by_whole_labels_and_ports_are_explicit() {
        let scope = hosts(&["GitHub.com", "*.example.org", "localhost:8080", "[::1]:9"]);
        for (scheme, host, port) in [
            ("https", "github.com", 443),
            ("http", "github.com", 80),
            ("https", "a.b.example.org", 443),
            ("http", "localhost", 8080),
        ] {
            assert!(scope.host(scheme, host, port), "{host}:{port}");
        }
        for (scheme, host, port) in [
            ("https", "github.com.evil.net", 443),
            ("https", "evilgithub.com", 443),
            ("https", "github.com", 8443),
            ("http", "github.com", 443),
            ("https", "example.org", 443),
            ("https", "evilexample.org", 443),
            ("http", "localhost", 80),
        ] {
            assert!(!scope.host(scheme, host, port), "{host}:{port}");
        }
        assert!(scope.names_address("::1".parse().unwrap(), 9));
        assert!(!scope.names_address("::1".parse().unwrap(), 10));
        assert!(!hosts(&["*"]).names_address("127.0.0.1".parse().unwrap(), 80));
    }

    #[test]
    fn all_ports_of_a_host_are_written_as_a_star() {
        let scope = hosts(&["127.0.0.1:*", "localhost:*", "example.org:*", "[::1]:*"]);
        for (host, port) in [("127.0.0.1", 1), ("localhost", 65535), ("[::1]", 80)] {
            assert!(scope.host("tcp", host, port) && scope.names(host, port), "{host}:{port}");
        }
        assert!(scope.host("https", "example.org", 8443));
        for (host, port) in [("127.0.0.2", 1), ("a.example.org", 443), ("10.0.0.1", 80)] {
            assert!(!scope.host("https", host, port) && !scope.names(host, port), "{host}:{port}");
        }
        for bad in ["*:*", "a:1:*", ":*", "a:*:*", "a*:*", "a:*/", "u@a:*"] {
            let scope = Scope { hosts: Some(vec![bad.to_owned()]), ..Scope::default() };
            assert!(CompiledScope::compile(Some(&scope), &places(), None).is_err(), "{bad}");
        }
    }

    #[test]
    fn an_address_and_localhost_are_named_with_their_port() {
        let scope = hosts(&["127.0.0.1:80", "[::1]:9", "localhost:8080", "*.localhost:1", "10.0.0.1"]);
        for (host, port) in [("127.0.0.1", 80), ("[::1]", 9), ("localhost", 8080)] {
            assert!(scope.names(host, port), "{host}:{port}");
        }
        for (host, port) in
            [("127.0.0.1", 81), ("127.0.0.2", 80), ("[::1]", 80), ("localhost", 80), ("localhost", 1), ("10.0.0.1", 80)]
        {
            assert!(!scope.names(host, port), "{host}:{port}");
        }
        assert!(!hosts(&["example.org:80"]).names("example.org", 80), "a name says nothing of where it leads");
        assert!(!hosts(&["other:8080"]).names("localhost", 8080));
        assert!(!CompiledScope::default().names("127.0.0.1", 80), "anywhere is not here");
    }

    #[test]
    fn this_machine_and_its_networks_are_near() {
        for near in [
            "localhost",
            "127.0.0.1",
            "127.8.9.1",
            "0.0.0.0",
            "10.1.2.3",
            "172.16.0.1",
            "192.168.1.1",
            "169.254.169.254",
            "[::1]",
            "[::]",
            "[fd00::1]",
            "[fe80::1]",
        ] {
            assert!(is_near(near), "{near}");
        }
        for inside in ["[::ffff:7f00:1]", "[::ffff:10.0.0.1]", "127.0.0.1"] {
            assert!(is_near_inside(inside), "{inside}");
        }
        assert!(!is_near_inside("[::ffff:8.8.8.8]") && !is_near_inside("example.org"));
        for far in ["example.org", "localhost.example.org", "8.8.8.8", "172.32.0.1", "[2606:4700::1111]"] {
            assert!(!is_near(far), "{far}");
        }
    }

    #[test]
    fn variables_are_named_whole() {
        let scope = Scope { env: Some(vec!["TOKEN".to_owned()]), ..Scope::default() };
        let scope = CompiledScope::compile(Some(&scope), &places(), None).expect("it compiles");
        assert!(scope.env("TOKEN") && CompiledScope::default().env("TOKEN"));
        assert!(!scope.env("TOKEN2") && !scope.env("token") && !scope.env(""));
    }

    #[test]
    fn a_program_in_a_writable_folder_is_named_with_its_path() {
        let commands = |commands: &[&str]| {
            let commands = commands.iter().map(|command| (*command).to_owned()).collect();
            let scope = Scope { commands: Some(commands), ..Scope::default() };
            CompiledScope::compile(Some(&scope), &places(), None).expect("it compiles")
        };
        let project = Path::new("/projects/app");
        let names = |scope: &CompiledScope, program: &str| scope.names_program(Path::new(program), project);
        let scope = commands(&["./run x", "bin/../tool", "/opt/t", "git"]);
        for named in ["/projects/app/run", "/projects/app/tool", "/opt/t"] {
            assert!(names(&scope, named), "{named}");
        }
        for other in ["/projects/app/git", "git", "/usr/bin/git", "/projects/app/bin/tool", "/run"] {
            assert!(!names(&scope, other), "{other}");
        }
        assert!(!names(&CompiledScope::default(), "/opt/t"));
    }

    #[test]
    fn host_patterns_that_are_no_hosts_are_refused() {
        for bad in
            ["", "a@b", ":p@b", "a/b", "a?b", "a#b", "a b", "*.*.com", "ex*mple.com", "https://x", "a:99999", "a:80:80"]
        {
            let scope = Scope { hosts: Some(vec![bad.to_owned()]), ..Scope::default() };
            let error = CompiledScope::compile(Some(&scope), &places(), None).expect_err(bad).to_string();
            assert!(error.contains("not a host name") && error.contains(bad), "{error}");
        }
    }

    #[test]
    fn a_command_pattern_is_a_program_and_its_leading_arguments() {
        let scope = Scope { commands: Some(vec!["git status".into(), "/usr/bin/ls".into()]), ..Scope::default() };
        let scope = CompiledScope::compile(Some(&scope), &places(), None).unwrap();
        let covers = |command: &str, args: &[&str]| runs(&scope, command, args, Path::new("/anywhere"));
        assert!(covers("git", &["status", "--short"]));
        assert!(!covers("git", &["-c", "alias.status=!sh", "status"]));
        assert!(!covers("./git", &["status"]));
        assert!(covers("/usr/bin/ls", &[]));
        assert!(!covers("ls", &[]));
    }

    #[test]
    fn what_is_remembered_of_a_command_is_that_command_and_no_more() {
        let args = |args: &[&str]| args.iter().map(|arg| (*arg).to_owned()).collect::<Vec<_>>();
        for (command, given, more) in [
            ("nice", vec![], vec!["sh"]),
            ("make", vec!["check"], vec!["check", "SHELL=/x"]),
            ("ls", vec![], vec!["-l"]),
        ] {
            let pattern = exact_command(&[], command, &args(&given)).expect("it can be written");
            let scope = Scope { commands: Some(vec![pattern]), ..Scope::default() };
            let scope = CompiledScope::compile(Some(&scope), &places(), None).expect("it compiles");
            let project = &places().project;
            assert!(runs(&scope, command, &given, project) && scope.means_command(command, &given), "{command}");
            assert!(!runs(&scope, command, &more, project), "{command}");
            assert!(!runs(&scope, command, &given, &project.join("sub")), "{command} elsewhere");
        }
        for (command, given) in [("a b", vec![]), ("git", vec!["*"]), ("git", vec![""]), ("git", vec!["\"\""])] {
            assert_eq!(exact_command(&[], command, &args(&given)), None, "{command} {given:?}");
        }
    }

    #[test]
    fn a_bare_name_covers_plain_uses_and_a_star_covers_all() {
        let commands = |patterns: &[&str]| {
            let commands = Some(patterns.iter().map(|pattern| (*pattern).to_owned()).collect());
            let scope = Scope { commands, ..Scope::default() };
            CompiledScope::compile(Some(&scope), &places(), None).unwrap()
        };
        let run = ["-c", "alias.x=!sh", "x"];
        let covers = |patterns: &[&str], command: &str, args: &[&str]| {
            runs(&commands(patterns), command, args, Path::new("/anywhere"))
        };
        assert!(covers(&["git"], "git", &["status"]));
        assert!(!covers(&["git"], "git", &run));
        assert!(covers(&["git *"], "git", &run));
        assert!(covers(&["git -c alias.x=!sh x"], "git", &run));
        assert!(!covers(&["git -c alias.x=!sh"], "git", &run), "nothing is known about what follows");
        assert!(!covers(&["git fetch"], "git", &["fetch", "--upload-pack=sh"]));
        assert!(covers(&["bash"], "bash", &["-c", "ls"]), "an interpreter is meant to run things");
        assert!(!covers(&["", " "], "", &[]));
        assert!(!covers(&["bash run.sh"], "bash", &["run.sh"]) && !covers(&["cargo"], "cargo", &["metadata"]));
        let script = commands(&["bash run.sh", "cargo"]);
        for folder in ["/projects/app", "/projects/app/sub"].map(Path::new) {
            assert!(runs(&script, "bash", &["run.sh"], folder) && runs(&script, "cargo", &["metadata"], folder));
        }
        assert!(
            commands(&["git *"]).means_command("git", &run) && !commands(&["git"]).means_command("git", &["status"])
        );
        let (here, there) = (Path::new("/projects/app"), Path::new("/projects/app/sub"));
        let exactly = CompiledScope::exactly_program("git", &run, Some(there), &Given::default());
        assert!(runs(&exactly, "git", &run, there) && !runs(&exactly, "git", &run, here));
        assert!(!runs(&exactly, "git", &run[..2], there) && !runs(&exactly, "git", &[], there));
        assert!(commands(&["git *"]).covers_every_use("git", &run) && !exactly.covers_every_use("git", &run));
        for other in [("A=b", vec!["sh".to_owned()]), ("PI_*=*", Vec::new())] {
            assert_eq!(exact_command(&[], other.0, &other.1), None, "a program that looks like a variable");
        }
    }

    fn runs(scope: &CompiledScope, program: &str, args: &[&str], folder: &Path) -> bool {
        scope.command(&Command { program, args, folder, given: &Given::default() })
    }

    #[test]
    fn a_grant_of_the_home_names_none_of_its_settings() {
        let names = |pattern: &str, path: &str| {
            let scope = Scope { paths: Some(vec![pattern.to_owned()]), ..Scope::default() };
            let scope = CompiledScope::compile(Some(&scope), &places(), None).expect("it compiles");
            let places = places();
            assert!(places.is_in_settings(Path::new(path)), "{path}");
            scope.names_in_home(Path::new(path), &places.home)
        };
        for (pattern, path) in [
            ("~/.config/x/**", "/home/me/.config/x/a"),
            ("~/.config", "/home/me/.config/x/a"),
            ("~/.hgrc", "/home/me/.hgrc"),
            ("~/.config/*/a", "/home/me/.config/x/a"),
            ("~/.*/**", "/home/me/.config/x/a"),
            ("/home/me/bin/**", "/home/me/bin/a"),
        ] {
            assert!(names(pattern, path), "{pattern} {path}");
        }
        for (pattern, path) in [
            ("~/**", "/home/me/.config/x/a"),
            ("~/*/x/a", "/home/me/.config/x/a"),
            ("~/{.config,y}/x/a", "/home/me/.config/x/a"),
            ("/home/**", "/home/me/.hgrc"),
            ("/**", "/home/me/bin/a"),
            ("/**/.hgrc", "/home/me/.hgrc"),
            ("~/.config/y/**", "/home/me/.config/x/a"),
            ("~/**", "/home/me/Library/LaunchAgents/a.plist"),
        ] {
            assert!(!names(pattern, path), "{pattern} {path}");
        }
        assert!(!places().is_in_settings(Path::new("/home/me/notes/.hidden")));
        assert!(!places().is_in_settings(Path::new("/home/me")));
        let begun_there = Places::new("/home/me/.dotfiles", "/home/me", "/home/me/.pi/agent", "/tmp");
        assert!(!begun_there.is_in_settings(Path::new("/home/me/.dotfiles/a")));
        assert!(begun_there.is_in_settings(Path::new("/home/me/.config/a")));
    }

    #[test]
    fn input_that_runs_is_no_plain_use() {
        let covers = |pattern: &str, program: &str, args: &[&str]| {
            let scope = Scope { commands: Some(vec![pattern.to_owned()]), ..Scope::default() };
            let scope = CompiledScope::compile(Some(&scope), &places(), None).expect("it compiles");
            let given = Given { input: Input::program(b"x"), ..Given::default() };
            scope.command(&Command { program, args, folder: &places().project, given: &given })
        };
        assert!(!covers("python3", "python3", &["-W", "ignore"]) && !covers("sh run.sh", "sh", &["run.sh"]));
        assert!(!covers("python3 a.py \"\"", "python3", &["a.py"]));
        for (pattern, program) in [("sh", "sh"), ("python3 *", "python3")] {
            assert!(covers(pattern, program, &["x"]), "{pattern}");
        }
    }

    #[test]
    fn a_variable_is_covered_where_a_pattern_names_it() {
        let covers = |pattern: &str, variables: &[(&str, &str)]| {
            let scope = Scope { commands: Some(vec![pattern.to_owned()]), ..Scope::default() };
            let scope = CompiledScope::compile(Some(&scope), &places(), None).expect("it compiles");
            let variables = variables.iter().map(|(name, value)| Variable::new("make", name, value)).collect();
            let given = Given { variables, ..Given::default() };
            scope.command(&Command { program: "make", args: &["clean"], folder: &places().project, given: &given })
        };
        let rm = [("RM", "echo")];
        for pattern in ["RM=* make", "RM=echo make clean \"\"", "R*=* make clean", "*=* make", "make *", "make clean *"]
        {
            assert!(covers(pattern, &rm), "{pattern}");
        }
        for pattern in ["make", "make clean", "make clean \"\"", "RM=rm make", "PATH=* make", "X*=* make"] {
            assert!(!covers(pattern, &rm), "{pattern}");
        }
        let harmless = [("LC_ALL", "C"), ("CI", "true"), ("COLUMNS", "80"), ("TZ", "Europe/Berlin"), ("NO_COLOR", "")];
        assert!(covers("make clean \"\"", &harmless), "harmless");
        for odd in [("CI", "1; id"), ("COLUMNS", "x"), ("TZ", "/etc/x"), ("TERM", "../x"), ("NODE_ENV", "$(id)")] {
            assert!(!covers("make", &[odd]), "{odd:?}");
        }
        let preload = [("LD_PRELOAD", "x.so")];
        for pattern in ["make", "make *", "*=* make", "LD_*=* make *"] {
            assert!(!covers(pattern, &preload), "{pattern}");
        }
        assert!(covers("LD_PRELOAD=* make", &preload));
        assert!(!covers("DRY=1 make clean \"\"", &[]), "a value that is written down is part of the command");
        assert!(covers("DRY=1 make", &[("DRY", "1")]) && !covers("DRY=1 make", &[("DRY", "2")]));
        assert!(covers("make", &[("RM", "")]), "left out");
    }

    #[test]
    fn an_answer_holds_for_the_same_variables_and_input() {
        let given = |variables: Vec<Variable<'static>>, input| Given { variables, input, ..Given::default() };
        let token = Variable::new("sh", "MY_TOKEN", "abc def");
        let asked = given(vec![token], Input::program(b"id"));
        let exactly = CompiledScope::exactly_program("sh", &[], None, &asked);
        let covers =
            |given: &Given<'_>| exactly.command(&Command { program: "sh", args: &[], folder: Path::new("/x"), given });
        assert!(covers(&asked));
        assert!(!covers(&given(vec![token], Input::program(b"id;"))) && !covers(&given(vec![token], Input::Later)));
        assert!(!covers(&given(vec![], Input::program(b"id"))), "without the variable");
        let other = Variable::new("sh", "MY_TOKEN", "abc");
        assert!(!covers(&given(vec![other], Input::program(b"id"))));
        let kept = exact_command(&[("MY_TOKEN".to_owned(), token.kept_value())], "sh", &[]).expect("a digest");
        assert!(kept.starts_with("MY_TOKEN=sha256:") && kept.ends_with(" sh \"\""), "{kept}");
    }

    #[test]
    fn a_grant_covers_one_tool_of_a_server_or_all_of_them() {
        let places = Places::new("/projects/app", "/home/me", "/home/me/.pi/agent", "/tmp");
        let of = |tools: &[&str]| {
            let tools = Some(tools.iter().map(|tool| (*tool).to_owned()).collect());
            CompiledScope::compile(Some(&Scope { tools, ..Scope::default() }), &places, None).expect("compiles")
        };
        let one = of(&["files/read"]);
        assert!(one.mcp("files/read") && !one.mcp("files/write") && !one.mcp("files/read2") && !one.mcp("other/read"));
        let all = of(&["files/*"]);
        assert!(all.mcp("files/read") && all.mcp("files/@resources") && !all.mcp("files2/read") && !all.mcp("file"));
        assert!(!of(&["*"]).mcp("files/read"), "a star stands for tools, not for servers");
        assert!(!of(&[]).mcp("files/read") && CompiledScope::default().mcp("files/read"));
    }

    #[test]
    fn a_tool_is_a_tool_and_no_other() {
        let scope = CompiledScope::exactly_tool("weather");
        assert!(scope.tool("weather") && !scope.tool("deploy") && CompiledScope::default().tool("deploy"));
    }
}
