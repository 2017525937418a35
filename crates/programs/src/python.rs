//! Modules that `python -m` runs.

use super::name_of;

/// Modules of the standard library, by the first part of their names (`sys.stdlib_module_names` of Python 3.11). Left out are those
/// that run or import code of a project, such as `pdb` and `unittest`.
const LIBRARY: &str = "abc aifc antigravity argparse array ast asynchat asyncore atexit audioop base64 binascii bisect builtins bz2 \
    calendar cgi cgitb chunk cmath codecs codeop collections colorsys compileall concurrent configparser contextlib \
    contextvars copy copyreg crypt csv ctypes curses dataclasses datetime dbm decimal difflib dis distutils email \
    encodings ensurepip enum errno fcntl filecmp fileinput fnmatch fractions ftplib functools gc genericpath getopt \
    getpass gettext glob graphlib grp gzip hashlib heapq hmac html http imaplib imghdr imp importlib io ipaddress \
    itertools json keyword lib2to3 linecache locale logging lzma mailbox mailcap marshal math mimetypes mmap \
    modulefinder msilib msvcrt multiprocessing netrc nis nntplib nt ntpath nturl2path numbers opcode operator \
    optparse os ossaudiodev pathlib pickle pickletools pipes pkgutil platform plistlib poplib posix posixpath pprint \
    pstats pty pwd py_compile pyclbr pyexpat queue quopri random re readline reprlib resource sched secrets select \
    selectors shelve shlex shutil signal site smtpd smtplib sndhdr socket socketserver spwd sqlite3 sre_compile \
    sre_constants sre_parse ssl stat statistics string stringprep struct subprocess sunau symtable sys sysconfig \
    syslog tabnanny tarfile telnetlib tempfile termios textwrap this threading time tkinter token tokenize tomllib \
    traceback tracemalloc tty turtle turtledemo types typing unicodedata urllib uu uuid venv warnings wave weakref \
    webbrowser winreg winsound wsgiref xdrlib xml xmlrpc zipapp zipfile zipimport zlib zoneinfo";

/// Installed tools that read files of a project but import none of its modules.
const INSTALLED: &str = "autopep8 bandit black build codespell cookiecutter flake8 isort mdformat mypy pip pipx poetry pre_commit \
    pycodestyle pydocstyle pyflakes pylint pyupgrade ruff setuptools sqlfluff twine uv virtualenv wheel yapf";

/// Modules of the standard library whose operands are code.
pub(super) const RUN_OPERANDS: &[&str] = &["doctest", "timeit", "unittest"];

/// The arguments of a python that runs a module.
struct ModuleUse<'a> {
    /// Letters of the options before the module.
    options: String,
    module: &'a str,
    rest: &'a [&'a str],
}

impl<'a> ModuleUse<'a> {
    fn of(args: &'a [&'a str]) -> Option<Self> {
        let (mut at, mut options) = (0, String::new());
        while let Some(letters) = args.get(at)?.strip_prefix('-').filter(|letters| !letters.starts_with('-')) {
            let end = letters.find(['c', 'm', 'W', 'X']);
            options.push_str(&letters[..end.unwrap_or(letters.len())]);
            match end {
                Some(letter) if letters.as_bytes()[letter] == b'm' => {
                    let attached = &letters[letter + 1..];
                    return match attached.is_empty() {
                        true => Some(Self { options, module: args.get(at + 1)?, rest: &args[at + 2..] }),
                        false => Some(Self { options, module: attached, rest: &args[at + 1..] }),
                    };
                }
                Some(letter) if letters.as_bytes()[letter] == b'c' => return None,
                Some(letter) => at += if letter + 1 == letters.len() { 2 } else { 1 },
                None => at += 1,
            }
        }
        None
    }

    fn is_library_tool(&self) -> bool {
        let has = |list: &str, name: &str| list.split(' ').any(|known| known == name);
        self.module.split('.').next().is_some_and(|first| has(LIBRARY, first) || has(INSTALLED, first))
    }
}

/// Returns the module of `-m` and the arguments after it. Earlier options of python may precede it.
pub(super) fn module_of<'a>(args: &'a [&'a str]) -> Option<(&'a str, &'a [&'a str])> {
    ModuleUse::of(args).map(|used| (used.module, used.rest))
}

/// Returns whether python with these arguments runs a tool of its library, or an installed one, and takes modules from the working
/// folder whatever `PYTHONSAFEPATH` says: it ignores variables (`-E`), or does not get this one. With `-I` or `-P` it takes none.
pub fn takes_modules_of_folder(command: &str, args: &[&str], gets_variables: bool) -> bool {
    let takes = |used: ModuleUse<'_>| {
        used.is_library_tool() && (!gets_variables || used.options.contains('E')) && !used.options.contains(['I', 'P'])
    };
    name_of(command) == "python" && ModuleUse::of(args).is_some_and(takes)
}

/// Returns whether a program is python with a tool of its standard library, or an installed one. By default python takes the
/// tool, and the modules that it imports, from the working folder first.
pub fn runs_library_tool(command: &str, args: &[&str]) -> bool {
    name_of(command) == "python" && ModuleUse::of(args).is_some_and(|used| used.is_library_tool())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tool_of_the_library_is_known_in_each_spelling() {
        for line in [
            "-m json.tool",
            "-Bm http.server",
            "-W ignore -X dev -mzipfile -l a.zip",
            "-s -m venv x",
            "-m dis a.py",
            "-m pip list",
        ] {
            assert!(runs_library_tool("python3.12", &line.split(' ').collect::<Vec<_>>()), "{line}");
        }
        for line in ["-m pytest", "-m unittest", "-c x -m json", "a.py -m json.tool", "-m", "--version"] {
            assert!(!runs_library_tool("python3", &line.split(' ').collect::<Vec<_>>()), "{line}");
        }
    }

    #[test]
    fn a_tool_of_the_library_takes_modules_of_the_folder_without_the_variable() {
        let takes = |line: &str, gets_variables| {
            takes_modules_of_folder("python3", &line.split(' ').collect::<Vec<_>>(), gets_variables)
        };
        assert!(!takes("-m json.tool", true) && takes("-m json.tool", false));
        assert!(takes("-E -m json.tool", true) && takes("-sEmjson.tool", true) && takes("-W ignore -E -m dis", true));
        for line in ["-I -m json.tool", "-EPm json.tool", "-E -m pytest", "-X E -m dis"] {
            assert!(!takes(line, true), "{line}");
        }
    }
}
