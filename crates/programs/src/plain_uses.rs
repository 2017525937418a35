//! Lists the plain uses of programs that can run other programs: a use that is not listed here is not plain.
//!
//! Such programs have hundreds of options, and each version adds some. A list of dangerous options would always be out of date,
//! so the tables list the uses that are known not to run programs at the request of an argument, or of a file that an argument
//! names: sub-commands by their full names, and the options of each. All other uses (other commands, other options,
//! abbreviations, values that name a program) need a grant of the whole command line.
//!
//! Options are written as in a usage text, separated by spaces:
//!
//! | written | permits |
//! |---|---|
//! | `--name` | `--name` and `--name=VALUE` |
//! | `--name=a\|b` | these values only, after `=` or as the next argument |
//! | `--name[=a\|b]` | no value, or one of these values after `=` |
//! | `-x` | `-x`, also in a cluster (`-xy`) |
//! | `-x:` | the same; the rest of its cluster is its value |
//! | `-x=a\|b` | these values only, as the rest of the cluster or as the next argument |
//! | `-#` | a number (`-5`), optionally followed by the letter of a unit |
//!
//! With [`Syntax::Words`] each argument is one option: `-name` permits `-name`, `--name` and `-name=VALUE`, `-x:` any argument
//! with this prefix.
//!
//! Every argument with a leading dash is checked, even if it may be the value of the previous argument or follow `--`, so that
//! the tables need not list the options with a value. An argument with a dash and a blank is text, not an option.

mod git;
mod tools;

pub(super) use tools::TOOLS;

/// The plain uses of one program.
pub(super) struct PlainTool {
    pub(super) names: &'static [&'static str],
    pub(super) syntax: Syntax,
    /// Options permitted before a sub-command.
    front: &'static str,
    /// Options before a sub-command that take the next argument, if a grant names them.
    front_with_value: &'static [&'static str],
    /// Uses; the first one that matches an argument list applies.
    uses: &'static [PlainUse],
    /// Whether the program obeys files in its working folder, even in its plain uses.
    pub(super) obeys_folder: bool,
    /// Whether a file in the working folder names the program that runs instead, even for `--version`. Then nothing is plain
    /// unless a grant names more than the program.
    only_by_name: bool,
}

/// The syntax of a program's options.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Syntax {
    /// `--name=VALUE`, and clusters of letters.
    Letters,
    /// Like `Letters`; the first argument is a cluster that needs no dash.
    FirstLetters,
    /// `-name VALUE`.
    Words,
    /// Options, then a file to run, whose arguments are unrestricted.
    Script,
    /// Like `Script`, but a first word without a dot or slash is a command, not a file.
    ScriptFile,
}

/// Plain uses that begin with the same words.
struct PlainUse {
    /// Sub-command by words, each with alternatives: `remote get-url|show`. Empty for a program without sub-commands.
    command: &'static str,
    options: &'static [&'static str],
    /// Returns whether an argument is never plain, neither as an operand nor as a value.
    refuses: fn(&str) -> bool,
    /// Returns whether the value of an option is never plain.
    refuses_value: fn(&str, &str) -> bool,
    /// Returns whether all arguments together may be plain.
    requires: fn(&[&str]) -> bool,
    /// Whether the use is plain only under a grant that names the command.
    by_name: bool,
}

const NOTHING: &[&str] = &[];

/// Commands of `bun` that install or run what an operand names.
const BUN_INSTALLS: &[&str] = &["a", "add", "c", "create", "i", "install", "link", "pm", "update", "x"];

const fn plain(command: &'static str, options: &'static [&'static str]) -> PlainUse {
    PlainUse { command, options, refuses: nothing, refuses_value: no_value, requires: anything, by_name: false }
}

const fn named(command: &'static str, options: &'static [&'static str]) -> PlainUse {
    PlainUse { command, options, refuses: nothing, refuses_value: no_value, requires: anything, by_name: true }
}

impl PlainUse {
    const fn without(self, refuses: fn(&str) -> bool) -> Self {
        Self { refuses, ..self }
    }

    const fn without_value(self, refuses_value: fn(&str, &str) -> bool) -> Self {
        Self { refuses_value, ..self }
    }

    const fn with(self, requires: fn(&[&str]) -> bool) -> Self {
        Self { requires, ..self }
    }
}

const fn tool(names: &'static [&'static str], syntax: Syntax, uses: &'static [PlainUse]) -> PlainTool {
    PlainTool { names, syntax, front: "", front_with_value: &[], uses, obeys_folder: false, only_by_name: false }
}

impl PlainTool {
    const fn obeying_its_folder(self) -> Self {
        Self { obeys_folder: true, ..self }
    }

    const fn replaced_by_its_folder(self) -> Self {
        Self { obeys_folder: true, only_by_name: true, ..self }
    }

    const fn with_front(self, front: &'static str, with_value: &'static [&'static str]) -> Self {
        Self { front, front_with_value: with_value, ..self }
    }

    /// Returns whether a use is plain. The first `named` arguments are named by the grant and count as allowed.
    pub(super) fn is_plain(&self, args: &[&str], named: usize) -> bool {
        if self.only_by_name && named == 0 {
            return false;
        }
        if args == ["--version"] {
            return true;
        }
        if matches!(self.syntax, Syntax::Script | Syntax::ScriptFile) {
            return self.runs_a_file(args, named);
        }
        if named > 0 && named == args.len() {
            return true;
        }
        let Some(front) = self.front_length(args, named) else { return false };
        let rest = &args[front..];
        let Some((known, words)) = self.uses.iter().find_map(|known| Some((known, known.words_in(rest)?))) else {
            return false;
        };
        if known.by_name && named <= front {
            return false;
        }
        let open = &args[named.max(front + words).min(args.len())..];
        // `tar xf a.tar`: each letter of the first argument is an option without a dash.
        if self.syntax == Syntax::FirstLetters
            && named == 0
            && let Some((letters, open)) = open.split_first()
            && !letters.starts_with('-')
        {
            let is_permitted = |letter: char| known.has(|option| option.letter() == Some(letter));
            return letters.chars().all(is_permitted) && known.permits(open, self.syntax);
        }
        known.permits(open, self.syntax)
    }

    /// Returns whether one of these arguments of a grant may name a file relative to the working folder that the program executes
    /// or obeys.
    pub(super) fn names_relative_file(&self, args: &[&str]) -> bool {
        let is_value = |at: usize| at > 0 && args[at - 1].starts_with('-');
        // `-Kconfig` and `--env-file=x` contain a name; that of `-K config` is the next argument.
        let is_within = |at: usize| args[at].len() > 2 && super::named_uses::may_name_file(args[at]);
        let is_any = |at: usize| super::is_relative(args[at]) || is_within(at);
        let has_commands = self.uses.iter().any(|known| !known.command.is_empty());
        match self.syntax {
            Syntax::Script => (0..args.len()).any(is_any),
            Syntax::ScriptFile => (0..args.len()).any(|at| super::is_relative_file(args[at]) || is_within(at)),
            _ if self.is_plain(args, 0) => false,
            _ if !has_commands && !self.obeys_folder => (0..args.len()).any(is_any),
            _ => (0..args.len()).any(|at| {
                super::is_relative_file(args[at]) || is_within(at) || (is_value(at) && is_any(at) && !self.obeys_folder)
            }),
        }
    }

    /// Returns the number of arguments before the sub-command; `None` if one of them is not plain.
    fn front_length(&self, args: &[&str], named: usize) -> Option<usize> {
        let has_commands = self.uses.iter().any(|known| !known.command.is_empty() && !known.command.starts_with('-'));
        if !has_commands {
            return Some(0);
        }
        let is_command = |arg: &str| self.uses.iter().any(|known| known.command == arg);
        let mut at = 0;
        while let Some(arg) = args.get(at).filter(|arg| arg.starts_with('-') && !is_command(arg)) {
            if at >= named && !options(&[self.front]).any(|option| option.permits_word(arg, None)) {
                return None;
            }
            at += if self.front_with_value.contains(arg) { 2 } else { 1 };
        }
        Some(at.min(args.len()))
    }

    /// Returns whether the arguments are plain options and a file to run.
    fn runs_a_file(&self, args: &[&str], named: usize) -> bool {
        let known = &self.uses[0];
        if matches!(args, ["-V" | "-v" | "--help" | "-h"]) {
            return true;
        }
        if args.iter().any(|arg| super::is_standard_input(arg)) {
            return false;
        }
        let is_python = self.names.contains(&"python");
        let is_flag = |arg: &str| {
            let has_rest = || arg.find(['W', 'X']).is_some_and(|at| at + 1 < arg.len());
            arg.contains('=') || arg == "--test" || known.permits(&[arg], Syntax::Letters) || (is_python && has_rest())
        };
        let mut at = 0;
        while let Some(arg) = args.get(at).filter(|arg| arg.starts_with('-')) {
            if at >= named && !known.permits(&args[at..=at], Syntax::Letters) {
                return false;
            }
            // All following arguments belong to the module, or to the line of code.
            if let Some(ends) = is_python.then(|| ends_options(arg)).flatten() {
                let module = super::python::module_of(&args[at..]);
                let stays = |(module, rest): (&str, &[&str])| {
                    let named = named.saturating_sub(at + ends + 1);
                    super::named_uses::stays_as_named(module, rest, named)
                        && !(super::python::RUN_OPERANDS.contains(&module) && named > 0 && named < rest.len())
                };
                return at + ends < named && module.is_none_or(stays);
            }
            // A named argument after a named option may be the value of the option.
            let has_value =
                at + 1 < named && !is_flag(arg) && args[at + 1..].first().is_some_and(|next| !next.starts_with('-'));
            at += if has_value { 2 } else { 1 };
        }
        if self.syntax == Syntax::ScriptFile && args.get(at) == Some(&"run") {
            at += 1;
        }
        let Some(file) = args.get(at) else { return !args.is_empty() && args.len() <= named };
        // Further operands are tests that run, or names of programs to install.
        let is_test = self.names.contains(&"node") && args[..at].contains(&"--test");
        let is_install =
            self.names.contains(&"bun") && (BUN_INSTALLS.contains(file) || (*file == "test" && at + 1 < named));
        if at < named && (is_test || is_install) && args.len() > named {
            return args[named..].iter().all(|arg| super::named_uses::is_harmless_option(arg));
        }
        let is_file = self.syntax == Syntax::Script || file.contains(['.', '/']);
        if at < named && !is_file {
            // Options after the name of a command belong to that command.
            let open = args[named..].iter().take_while(|arg| **arg != "--");
            return open.into_iter().all(|arg| !arg.starts_with('-') || super::named_uses::is_harmless_option(arg));
        }
        at < named || (is_file && !(known.refuses)(file))
    }
}

/// Returns the number of arguments that an option of python takes, if it is the last option (`-m`, `-c`, also in a cluster).
fn ends_options(arg: &str) -> Option<usize> {
    let letters = arg.strip_prefix('-').filter(|letters| !letters.starts_with('-'))?;
    let at = letters.find(['c', 'm', 'W', 'X'])?;
    let is_last = matches!(letters.as_bytes()[at], b'c' | b'm');
    is_last.then_some(usize::from(at + 1 == letters.len()))
}

impl PlainUse {
    /// Returns the number of words of the use's command, if the arguments begin with it.
    fn words_in(&self, args: &[&str]) -> Option<usize> {
        let words = self.command.split_whitespace();
        let count = words.clone().count();
        let fits = |(word, arg): (&str, &&str)| word.split('|').any(|word| word == *arg);
        (args.len() >= count && words.zip(args).all(fits)).then_some(count)
    }

    fn has(&self, is_it: impl Fn(PermittedOption<'_>) -> bool) -> bool {
        options(self.options).any(is_it)
    }

    fn permits(&self, args: &[&str], syntax: Syntax) -> bool {
        (self.requires)(args)
            && (0..args.len()).all(|at| {
                let (arg, next) = (args[at], args.get(at + 1).copied());
                let value = match arg.split_once('=').filter(|(option, _)| option.starts_with('-')) {
                    Some((option, value)) => Some((option, value)),
                    None => at
                        .checked_sub(1)
                        .map(|before| args[before])
                        .filter(|arg| arg.starts_with('-'))
                        .map(|before| (before, arg)),
                };
                if (self.refuses)(arg) || value.is_some_and(|(option, value)| (self.refuses_value)(option, value)) {
                    return false;
                }
                match arg.strip_prefix('-') {
                    None | Some("" | "-") => true,
                    Some(text) if text.starts_with(char::is_whitespace) => true,
                    Some(text) if is_number(text) && self.has(|option| option.0 == "-#") => true,
                    Some(_) if syntax == Syntax::Words => self.has(|option| option.permits_word(arg, next)),
                    Some(long) if long.starts_with('-') => self.has(|option| option.permits_word(arg, next)),
                    Some(letters) => self.permits_letters(letters, next),
                }
            })
    }

    /// Returns whether each letter of a cluster is permitted, up to a letter that takes the rest as its value.
    fn permits_letters(&self, letters: &str, next: Option<&str>) -> bool {
        for (at, letter) in letters.char_indices() {
            let Some(option) = options(self.options).find(|option| option.letter() == Some(letter)) else {
                return false;
            };
            let rest = &letters[at + letter.len_utf8()..];
            match option.0.get(1 + letter.len_utf8()..) {
                Some("") => {}
                Some(":") => return true,
                Some(values) => {
                    let given = if rest.is_empty() { next } else { Some(rest) };
                    return given.is_some_and(|given| is_one_of(given, values.trim_start_matches('=')));
                }
                None => return false,
            }
        }
        true
    }
}

/// One option of a table.
#[derive(Clone, Copy)]
struct PermittedOption<'a>(&'a str);

fn options<'a>(lists: &'a [&'a str]) -> impl Iterator<Item = PermittedOption<'a>> {
    lists.iter().flat_map(|list| list.split_whitespace()).map(PermittedOption)
}

impl PermittedOption<'_> {
    /// Returns the letter of an option `-x`.
    fn letter(self) -> Option<char> {
        let mut letters = self.0.strip_prefix('-')?.chars();
        let letter = letters.next().filter(|letter| !matches!(letter, '-' | '#'))?;
        letters.next().is_none_or(|end| matches!(end, ':' | '=')).then_some(letter)
    }

    /// Returns whether the option permits a whole argument. `--name` also permits `-name` where options are words.
    fn permits_word(self, arg: &str, next: Option<&str>) -> bool {
        if let Some(beginning) = self.0.strip_suffix(':') {
            return arg.starts_with(beginning);
        }
        let (name, given) = arg.split_once('=').map_or((arg, None), |(name, value)| (name, Some(value)));
        let (known, values) = self.0.split_once('=').map_or((self.0, None), |(known, values)| (known, Some(values)));
        let known_alone = known.trim_end_matches('[');
        let is_it = name == known_alone || name.strip_prefix('-') == Some(known_alone).filter(|name| name.len() > 2);
        is_it
            && match (values, given) {
                (None, _) => true,
                (Some(values), Some(given)) => is_one_of(given, values.trim_end_matches(']')),
                (Some(_), None) if known.ends_with('[') => true,
                (Some(values), None) => next.is_some_and(|next| is_one_of(next, values)),
            }
    }
}

fn is_one_of(value: &str, values: &str) -> bool {
    values.split('|').any(|known| known == value)
}

/// Returns whether text consists of digits, with at most one letter after them.
fn is_number(text: &str) -> bool {
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    !digits.is_empty() && text.len() - digits.len() < 2 && digits.bytes().all(|byte| byte.is_ascii_digit())
}

const fn no_value(_: &str, _: &str) -> bool {
    false
}

const fn anything(_: &[&str]) -> bool {
    true
}

const fn nothing(_: &str) -> bool {
    false
}

/// Matches `HELPER::ADDRESS`, for which git runs a program of that name.
fn names_a_helper(operand: &str) -> bool {
    operand.contains("::")
}

/// Matches `@FILE`: the file contains further arguments.
fn names_a_list(operand: &str) -> bool {
    operand.starts_with('@')
}

/// Matches `+TOOLCHAIN` and `+COMMAND`.
fn begins_with_plus(operand: &str) -> bool {
    operand.starts_with('+')
}

/// Matches a file of further arguments, or a toolchain.
fn begins_with_plus_or_list(operand: &str) -> bool {
    begins_with_plus(operand) || names_a_list(operand)
}

/// Matches `SCHEME:REST`, which loads keys from an engine or a provider.
fn has_a_scheme(operand: &str) -> bool {
    operand.contains(':')
}

/// Matches operands of an interpreter that are not script files: `inspect`, `debug`, and anything with a colon, such as a URL.
/// The colon of a drive letter does not count.
fn is_no_file(operand: &str) -> bool {
    let rest =
        operand.get(2..).filter(|_| operand.as_bytes()[1] == b':' && operand.as_bytes()[0].is_ascii_alphabetic());
    matches!(operand, "inspect" | "debug") || rest.unwrap_or(operand).contains(':')
}

/// Returns whether an operand is anything but a plain network URL, such as `file:`, `svn+ssh:`, `^/trunk` or `path@REV`. A local
/// repository has hooks, and a tunnel is a program. An address relative to the working copy's repository, or a version of a file
/// in it, may refer to either.
fn is_no_network_address(operand: &str) -> bool {
    let operand = operand.to_ascii_lowercase();
    let is_address = operand.contains("://");
    operand.contains("file:")
        || operand.contains("svn+")
        || operand.starts_with('^')
        || (is_address && !is_network_address(&operand))
        || (!is_address && operand.contains('@'))
}

fn is_network_address(operand: &str) -> bool {
    let scheme = operand.split_once("://").map_or("", |(scheme, _)| scheme);
    ["http", "https", "svn"].iter().any(|known| scheme.eq_ignore_ascii_case(known))
}

/// Returns whether the arguments name a repository by its network address, so that the working copy's repository is not used.
fn has_network_address(args: &[&str]) -> bool {
    args.iter().any(|arg| is_network_address(arg))
}

/// Matches an option or file of `clang-cl`: `/clang:-fplugin=x`.
fn begins_with_slash_or_list(operand: &str) -> bool {
    operand.starts_with('/') || names_a_list(operand)
}

/// Sub-commands of `pi` that change or show trust, grants, packages or sessions.
const COMMANDS_OF_PI: &[&str] = &[
    "auth",
    "config",
    "demo",
    "ext",
    "help",
    "inspect",
    "install",
    "list",
    "login",
    "logout",
    "mcp",
    "remove",
    "replay",
    "rules",
    "rummy",
    "tape",
    "trust",
    "uninstall",
    "update",
];

/// Matches a command of `pi`, a file to read a reply from, or a package to download. Text of several words is a prompt.
fn is_no_agent(operand: &str) -> bool {
    COMMANDS_OF_PI.contains(&operand) || (names_a_source(operand) && !operand.contains(char::is_whitespace))
}

/// Returns whether each `-e` of `pi` has its extension in a separate argument, where a source to download can be recognised.
/// `-enpm:x` has it attached, possibly after other letters.
fn attaches_no_extension(args: &[&str]) -> bool {
    const SWITCHES: [char; 4] = ['p', 'h', 'v', 'V'];
    let attached = |arg: &&str| {
        let letters = arg.strip_prefix('-').filter(|letters| !letters.starts_with('-'));
        letters
            .map(|letters| letters.trim_start_matches(SWITCHES))
            .is_some_and(|rest| rest.len() > 1 && rest.starts_with('e'))
    };
    !args.iter().any(attached)
}

/// Matches the value of an option of `pi` that is not a prompt and names a file with a reply, or a package to download.
fn is_no_value_for_agent(option: &str, value: &str) -> bool {
    // The argument after one of these options is text.
    const TEXTS: &[&str] = &["--append-system-prompt", "--name", "--print", "--system-prompt", "-n", "-p"];
    let is_short = option.len() == 3 && option.starts_with("-n");
    let is_switch =
        is_short || option.starts_with("--no-") || matches!(option, "--offline" | "--verbose" | "--session-control");
    !TEXTS.contains(&option) && !is_switch && value.split([',', ' ']).any(names_a_source)
}

fn names_a_source(value: &str) -> bool {
    let value = value.trim_start();
    let is_scheme = |scheme: &&str| value.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme));
    ["git:", "npm:", "script:", "ssh:"].iter().any(is_scheme) || value.contains("://")
}

/// Returns whether an operand is a path that may lead out of the working folder.
fn leads_out(operand: &str) -> bool {
    operand.starts_with(['/', '~']) || operand.split('/').any(|part| part == "..")
}

/// Matches a file inside `.git`, which git moves before it reports an error.
fn names_git_folder(operand: &str) -> bool {
    operand.to_ascii_lowercase().contains(".git") || operand.to_ascii_lowercase().contains("git~")
}
