//! Finds the files that git runs or reads as settings because the user's configuration names them, and the folders of repositories.
//!
//! Git runs the hooks in `core.hooksPath`, filters, aliases and the like at the user's next command, and reads the settings of
//! included files. Such a file in the project looks like any other, but counts as code that runs later. Only files that can be in
//! the project matter here; a program that is found by its name is not one of them.

use pijs_durable::{normal, read_regular};
use pijs_programs::git_settings::{is_harmless, neutral_connection, neutral_file};
use std::path::{Path, PathBuf};

/// Maximum size in bytes of a file that names a repository.
const MAX_OF_NAME: u64 = 8 << 10;
/// Maximum size of a file of settings in bytes, and maximum number of such files.
const MAX_OF_SETTINGS: u64 = 1 << 20;
const MAX_FILES: usize = 50;
/// Maximum number of paths.
const MAX_PATHS: usize = 1000;

/// Files of the repository around a folder that run later.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct ObeyedFiles {
    /// Folders of the repository that have a name other than `.git`, because a link leads to them or a file names them.
    pub repositories: Vec<PathBuf>,
    /// Files and folders that its settings, or the user's, name: programs, hooks and further settings.
    pub named: Vec<PathBuf>,
}

impl ObeyedFiles {
    /// Finds the files for a working folder. Folders around it are none of them.
    pub fn of(cwd: &Path, home: &Path) -> Self {
        let found = cwd.ancestors().find(|folder| folder.join(".git").symlink_metadata().is_ok());
        let Some(top) = found else { return Self::default() };
        let dot_git = top.join(".git");
        let named_in = |file: &Path, before: &str| {
            let text = String::from_utf8(read_regular(file, MAX_OF_NAME).ok()?).ok()?;
            let name = text.strip_prefix(before)?.trim();
            (!name.is_empty()).then(|| file.parent().map(|folder| normal(folder, Path::new(name))))?
        };
        let elsewhere = match dot_git.is_file() {
            true => named_in(&dot_git, "gitdir:"),
            false => dot_git.is_symlink().then(|| dot_git.clone()),
        };
        let folder = elsewhere.clone().unwrap_or(dot_git);
        let common = named_in(&folder.join("commondir"), "");
        let mut settings = vec![folder.join("config.worktree"), common.as_ref().unwrap_or(&folder).join("config")];
        settings.extend([".gitconfig", ".config/git/config"].map(|name| home.join(name)));
        let mut search = Search { top, cwd, home, open: settings, named: Vec::new() };
        search.run();
        Self { repositories: elsewhere.into_iter().chain(common).collect(), named: search.named }
    }
}

struct Search<'a> {
    top: &'a Path,
    cwd: &'a Path,
    home: &'a Path,
    /// Files of settings that are still to be read.
    open: Vec<PathBuf>,
    named: Vec<PathBuf>,
}

impl Search<'_> {
    fn run(&mut self) {
        let mut read = 0;
        while let Some(file) = self.open.pop() {
            read += 1;
            let Some(text) = read_regular(&file, MAX_OF_SETTINGS).ok().filter(|_| read <= MAX_FILES) else { continue };
            for (section, variable, value) in settings(&String::from_utf8_lossy(&text)) {
                self.setting(&file, (&section, &variable), &value);
            }
        }
    }

    fn setting(&mut self, file: &Path, (section, variable): (&str, &str), value: &str) {
        match (section, variable) {
            ("include" | "includeif", "path") => {
                let path = self.expanded(file.parent().unwrap_or(file), value);
                self.open.push(path.clone());
                self.add(path);
            }
            ("core", "hookspath") | ("init", "templatedir") => self.add(self.expanded(self.top, value)),
            _ if neutral_file(section, variable).is_some() || neutral_connection(section, variable).is_some() => {}
            ("credential", "helper") | ("uploadpack", "packobjectshook") => self.program(value),
            _ if !is_harmless(section, variable) || value.starts_with('!') => self.program(value),
            _ => {}
        }
    }

    /// Adds the files that a command line names. A word without a slash is a file only if it exists; a folder is not a program.
    fn program(&mut self, line: &str) {
        let ends = |character: char| character.is_whitespace() || "\"'=;&|()<>`!".contains(character);
        for word in line.split(ends).chain([line]).filter(|word| !word.is_empty()) {
            for base in [self.top, self.cwd] {
                let path = self.expanded(base, word);
                let may_be_made = word.contains('/') && !word.ends_with('/') && !word.contains(char::is_whitespace);
                match path.symlink_metadata() {
                    Ok(_) if path.is_dir() => {}
                    Ok(_) => self.add(path),
                    Err(_) if may_be_made => self.add(path),
                    Err(_) => {}
                }
            }
        }
    }

    /// Adds a path that lies in the repository or in the home, and not around the working folder.
    fn add(&mut self, path: PathBuf) {
        let is_near = path.starts_with(self.top) || path.starts_with(self.home);
        if is_near && !self.cwd.starts_with(&path) && self.named.len() < MAX_PATHS && !self.named.contains(&path) {
            self.named.push(path);
        }
    }

    fn expanded(&self, base: &Path, value: &str) -> PathBuf {
        match value.strip_prefix("~/") {
            Some(rest) => normal(self.home, Path::new(rest)),
            None => normal(base, Path::new(value)),
        }
    }
}

/// Returns section, variable and value of each setting in a file of git's configuration; the first two are in lower case.
fn settings(text: &str) -> Vec<(String, String, String)> {
    let (mut found, mut section) = (Vec::new(), String::new());
    // A backslash at the end of a line continues it.
    for line in text.replace("\\\r\n", "").replace("\\\n", "").lines() {
        let mut line = line.trim();
        if let Some(rest) = line.strip_prefix('[') {
            let name = rest.split(|character: char| ". \t\"]".contains(character)).next().unwrap_or_default();
            section = name.to_ascii_lowercase();
            line = end_of_header(rest);
        }
        let name = line.split(|character: char| !character.is_ascii_alphanumeric() && character != '-').next();
        let name = name.unwrap_or_default();
        if let Some(value) = line[name.len()..].trim_start().strip_prefix('=').filter(|_| !name.is_empty()) {
            found.push((section.clone(), name.to_ascii_lowercase(), unquoted(value.trim())));
        }
    }
    found
}

/// Returns what follows the header of a section on its line.
fn end_of_header(text: &str) -> &str {
    let (mut is_quoted, mut is_escaped) = (false, false);
    for (at, character) in text.char_indices() {
        match character {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            '"' => is_quoted = !is_quoted,
            ']' if !is_quoted => return text[at + 1..].trim_start(),
            _ => {}
        }
    }
    ""
}

/// Returns a value without quotes, escapes and comment.
fn unquoted(value: &str) -> String {
    let (mut out, mut is_quoted) = (String::new(), false);
    let mut characters = value.chars();
    while let Some(character) = characters.next() {
        match character {
            '"' => is_quoted = !is_quoted,
            '#' | ';' if !is_quoted => break,
            '\\' => out.extend(characters.next().map(|next| if next == 'n' || next == 't' { ' ' } else { next })),
            other => out.push(other),
        }
    }
    out.trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_read_as_git_reads_them() {
        let text = "[core]\n\thooksPath = \"my hooks\" ; x\n[Include] path=a\\\n/b # c\n[filter \"a]\\\"b.c\"] clean = \"x # y\" z\n\
                    [alias]\n  l = !sh \\\"q\\\"\n bare = true\nflag\n[core.x]k=\n";
        let found: Vec<String> =
            settings(text).into_iter().map(|(section, name, value)| format!("{section}.{name}={value}")).collect();
        assert_eq!(
            found,
            [
                "core.hookspath=my hooks",
                "include.path=a/b",
                "filter.clean=x # y z",
                "alias.l=!sh \"q\"",
                "alias.bare=true",
                "core.k=",
            ]
        );
    }

    #[test]
    fn files_that_settings_name_are_found() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = folder.path().canonicalize().expect("a path");
        let (home, top) = (at.join("home"), at.join("app"));
        let write = |path: &str, text: &str| {
            let path = at.join(path);
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("folders");
            std::fs::write(path, text).expect("written");
        };
        write("app/sub/clean.sh", "");
        write("app/tool", "");
        write("home/.gitconfig", "[init]\ntemplateDir = ~/template\n[core]\neditor = vim\n");
        write("app/more.inc", "[credential]\nhelper = \"!f() { ./cred get; }; f\"\n");
        write(
            "app/.git/config",
            "[core]\nhooksPath = hooks\nfsmonitor = true\npager = ./view\n[include]\npath = ../more.inc\n\
             [filter \"f\"]\nclean = python3 sub/clean.sh %f\n[remote \"o\"]\nurl = ../sub/clean.sh\n\
             [diff \"d\"]\ntextconv = tool\n[alias]\nx = !cd sub && make\n[commit]\ntemplate = tool2/x\n\
             [core]\nsshCommand = ssh -i /elsewhere/key\n",
        );
        let mut found = ObeyedFiles::of(&top.join("sub"), &home);
        found.named.sort();
        let mut expected: Vec<PathBuf> =
            ["hooks", "view", "more.inc", "sub/clean.sh", "tool", "cred", "sub/cred"].map(|name| top.join(name)).into();
        expected.extend([home.join("template"), top.join("sub/view"), top.join("sub/sub/clean.sh")]);
        expected.sort();
        assert_eq!(found, ObeyedFiles { repositories: Vec::new(), named: expected });
        assert_eq!(ObeyedFiles::of(&home, &home), ObeyedFiles::default());
    }

    #[test]
    fn a_repository_elsewhere_is_found() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = folder.path().canonicalize().expect("a path");
        std::fs::create_dir_all(at.join("app")).expect("a folder");
        std::fs::create_dir_all(at.join("main/worktrees/a")).expect("a folder");
        std::fs::write(at.join("app/.git"), "gitdir: ../main/worktrees/a\n").expect("written");
        std::fs::write(at.join("main/worktrees/a/commondir"), "../..\n").expect("written");
        std::fs::write(at.join("main/config"), "[core]\nhooksPath=hooks\n").expect("written");
        let found = ObeyedFiles::of(&at.join("app"), &at.join("home"));
        assert_eq!(found.repositories, [at.join("main/worktrees/a"), at.join("main")]);
        assert_eq!(found.named, [at.join("app/hooks")]);
    }
}
