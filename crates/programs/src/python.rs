//! Modules that `python -m` runs.

use super::name_of;

/// Modules of the standard library that are tools and import nothing of a project, by the first part of their names.
const TOOLS: &[&str] = &[
    "ast",
    "base64",
    "calendar",
    "compileall",
    "encodings",
    "ensurepip",
    "gzip",
    "http",
    "json",
    "mimetypes",
    "pickletools",
    "platform",
    "py_compile",
    "quopri",
    "random",
    "site",
    "sqlite3",
    "symtable",
    "sysconfig",
    "tabnanny",
    "tarfile",
    "this",
    "tokenize",
    "uuid",
    "venv",
    "webbrowser",
    "zipapp",
    "zipfile",
];

/// Modules of the standard library whose operands are code.
pub(super) const RUN_OPERANDS: &[&str] = &["doctest", "timeit", "unittest"];

/// Returns the module of `-m` and the arguments after it. Earlier options of python may precede it.
pub(super) fn module_of<'a>(args: &'a [&'a str]) -> Option<(&'a str, &'a [&'a str])> {
    let mut at = 0;
    while let Some(letters) = args.get(at)?.strip_prefix('-').filter(|letters| !letters.starts_with('-')) {
        match letters.find(['c', 'm', 'W', 'X']) {
            Some(letter) if letters.as_bytes()[letter] == b'm' => {
                let attached = &letters[letter + 1..];
                return match attached.is_empty() {
                    true => Some((args.get(at + 1)?, &args[at + 2..])),
                    false => Some((attached, &args[at + 1..])),
                };
            }
            Some(letter) if letters.as_bytes()[letter] == b'c' => return None,
            Some(letter) => at += if letter + 1 == letters.len() { 2 } else { 1 },
            None => at += 1,
        }
    }
    None
}

/// Returns whether a program is python with a tool of its standard library. By default python takes the modules that the tool
/// imports from the working folder first.
pub fn runs_library_tool(command: &str, args: &[&str]) -> bool {
    let is_tool = |(module, _): (&str, &[&str])| module.split('.').next().is_some_and(|first| TOOLS.contains(&first));
    name_of(command) == "python" && module_of(args).is_some_and(is_tool)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tool_of_the_library_is_known_in_each_spelling() {
        for line in ["-m json.tool", "-Bm http.server", "-W ignore -X dev -mzipfile -l a.zip", "-s -m venv x"] {
            assert!(runs_library_tool("python3.12", &line.split(' ').collect::<Vec<_>>()), "{line}");
        }
        for line in ["-m pytest", "-c x -m json", "a.py -m json.tool", "-m", "--version"] {
            assert!(!runs_library_tool("python3", &line.split(' ').collect::<Vec<_>>()), "{line}");
        }
    }
}
