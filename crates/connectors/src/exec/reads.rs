//! Counts the files that a program may read for `egress`: whatever it makes of them, its output and what it writes are the extension's.
//!
//! | the arguments have | counted |
//! |---|---|
//! | a file by its name, also in a line that a shell runs, behind an option, seen from a folder that they name | that file |
//! | a pattern of a shell | the files that begin as it does |
//! | a file of an earlier version (`git show HEAD:.env`) | that name |
//! | a folder, for a program that reads whole folders ([`folder_reading`]) | each file in it; all of a folder that is too large to look at |
//! | more names and folders than can be looked at | the working folder as a whole |
//! | a list of files, for such a program | the files that it names |

use pijs_hostcall::Permit;
use pijs_hostcall::places::{may_hold_secrets, normal};
use pijs_programs::{FolderReading, Kind, files_of_argument, folder_reading, folder_reading_of_line, kind_of, name_of};
use pijs_protocol::guard;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Entries of folders, and names seen from folders, that are looked at for one program.
const MOST_ENTRIES: usize = 100_000;
/// Words of one call that are looked at.
const MOST_WORDS: usize = 20_000;
/// Words of one write to a program that are followed where they lead.
const MOST_WRITTEN: usize = 2000;
/// Longest list of files that is read.
const LONGEST_LIST: u64 = 1 << 20;
/// Longest configuration of a repository that is searched for passwords.
const LONGEST_CONFIG: u64 = 1 << 20;
/// Options behind which a list of files stands.
const LISTS: &[&str] = &["--files-from", "--from-file", "--include-from", "-@", "-I", "-T"];
/// Programs that print names of files.
const LISTERS: &[&str] = &["fd", "fdfind", "find", "locate", "ls", "ls-files", "rg", "tree"];
/// Programs and words of a shell that take names from their input.
const READ_NAMES: &[&str] = &["mapfile", "parallel", "read", "readarray", "xargs"];

/// Counts what a program with these arguments and this input may read in its working folder.
pub(super) fn note(permit: &Permit, command: &str, args: &[String], input: &[u8], cwd: &Path) {
    if !guard!(ExecArgumentReads) || permit.has_read_secrets() {
        return;
    }
    let is_folder_known = guard!(ExecFolderReads);
    let input = String::from_utf8_lossy(if is_folder_known { input } else { &[] });
    let texts: Vec<&str> = args.iter().map(String::as_str).chain(input.lines()).collect();
    let line: Vec<&str> = texts.iter().flat_map(|text| text.split(is_between_words)).collect();
    let runs_words = kind_of(command) == Kind::Interpreter && is_folder_known;
    let reading = if is_folder_known { reading(command, args, &line, &texts) } else { FolderReading::None };
    let lists = if reading == FolderReading::None { Vec::new() } else { lists(args, cwd) };
    let parts = texts.iter().flat_map(|text| files_of_argument(text).chain(text.split(is_between_names)));
    let listed = lists.iter().flat_map(|list| list.split(['\n', '\0']));
    let named = parts.chain(line.iter().copied()).chain(listed).filter(|word| !word.is_empty());
    let named: BTreeSet<&str> = named.take(MOST_WORDS).collect();
    // Folders first: other names may be seen from them.
    let mut folders = BTreeSet::from([cwd.to_owned()]);
    if is_folder_known {
        folders.extend(named.iter().filter_map(|word| folder_at(cwd, word)));
    }
    if folders.len() > 1 && folders.len().saturating_mul(named.len()) > MOST_ENTRIES {
        return permit.reads_folder(cwd);
    }
    let mut reads = Reads { permit, entries: 0 };
    for folder in &folders {
        named.iter().for_each(|word| reads.word(folder, word));
        if runs_words {
            line.iter().for_each(|word| reads.pattern(folder, word, reading));
        }
    }
    if is_folder_known && (name_of(command) == "git" || (runs_words && line.contains(&"git"))) {
        reads.earlier_versions(&line);
    }
    // A program that is told no folder reads the one that it works in.
    let is_read = |folder: &&PathBuf| folders.len() == 1 || *folder != cwd || named.contains(".");
    if reading != FolderReading::None {
        folders.iter().filter(is_read).for_each(|folder| reads.folder(folder, reading, None));
    }
}

/// Counts the files that are named in what is written to a program while it runs.
pub(super) fn note_input(permit: &Permit, data: &[u8]) {
    if !guard!(ExecFolderReads) || permit.has_read_secrets() {
        return;
    }
    let (text, cwd) = (String::from_utf8_lossy(data), &permit.places().project);
    let words: BTreeSet<&str> = text.split(is_between_words).filter(|word| !word.is_empty()).collect();
    let reads = Reads { permit, entries: 0 };
    // Any name may be that of a link. To look at each takes time, and this is in the way of what a program is told.
    for (number, word) in words.iter().flat_map(|word| files_of_argument(word)).enumerate() {
        if number < MOST_WRITTEN || may_hold_secrets(word) {
            reads.word(cwd, word);
        }
    }
}

fn is_between_words(c: char) -> bool {
    c.is_whitespace() || "'\"`;|&()<>{}$".contains(c)
}

fn is_between_names(c: char) -> bool {
    is_between_words(c) || ",:=".contains(c)
}

/// Says how far the program of a call reads folders. What an interpreter is given may begin with any of its words.
fn reading(command: &str, args: &[String], line: &[&str], texts: &[&str]) -> FolderReading {
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    let own = folder_reading(command, &words);
    if kind_of(command) != Kind::Interpreter {
        return own;
    }
    let has = |words: &[&str]| line.iter().any(|word| words.contains(&name_of(word)));
    let is_substituted = || texts.iter().any(|text| text.contains("$(") || text.contains('`') || text.contains("<("));
    // Names of files that one program prints are read by another one.
    if has(LISTERS) && (has(READ_NAMES) || is_substituted()) {
        return FolderReading::All;
    }
    let words: Vec<&str> = line.iter().copied().filter(|word| !word.is_empty()).take(MOST_WORDS).collect();
    own.max(folder_reading_of_line(&words))
}

fn folder_at(cwd: &Path, word: &str) -> Option<PathBuf> {
    normal(cwd, Path::new(word)).canonicalize().ok().filter(|path| path.is_dir())
}

/// Returns the lists of files that options name.
fn lists(args: &[String], cwd: &Path) -> Vec<String> {
    let behind = args.windows(2).filter(|pair| LISTS.contains(&pair[0].as_str())).map(|pair| pair[1].as_str());
    let joined = args.iter().filter_map(|arg| {
        let (option, value) = arg.split_once('=').or_else(|| arg.split_at_checked(2))?;
        LISTS.contains(&option).then_some(value)
    });
    let files = behind.chain(joined).chain(args.iter().filter_map(|arg| arg.strip_prefix('@')));
    let read = |file: &str| pijs_durable::read_regular(&normal(cwd, Path::new(file)), LONGEST_LIST).ok();
    files.filter_map(read).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).collect()
}

/// Counts for one call.
struct Reads<'a> {
    permit: &'a Permit,
    /// Entries of folders that were looked at.
    entries: usize,
}

impl Reads<'_> {
    /// Counts the file that a word names, seen from a folder.
    fn word(&self, folder: &Path, word: &str) {
        let Ok(real) = normal(folder, Path::new(word)).canonicalize() else { return };
        // The folder of a repository has the password that it came by.
        let is_repository = real.is_dir() && real.file_name().is_some_and(|name| name == ".git");
        self.permit.reads_content(&if is_repository { real.join("config") } else { real });
    }

    /// Counts the files that a pattern of a shell stands for: folder by folder, as a shell expands it. `**` stands for a whole tree.
    fn pattern(&mut self, folder: &Path, word: &str, reading: FolderReading) {
        let Some(at) = word.find(['*', '?', '[']) else { return };
        let (before, rest) = word[..at].rfind('/').map_or(("", word), |slash| word.split_at(slash + 1));
        let parts: Vec<&str> = rest.split('/').filter(|part| !part.is_empty()).collect();
        let mut folders = vec![normal(folder, Path::new(before))];
        for (number, part) in parts.iter().enumerate() {
            if part.contains("**") {
                let name = parts.last().filter(|_| number + 1 < parts.len()).copied();
                return folders.iter().for_each(|folder| self.folder(folder, FolderReading::All, name));
            }
            let is_last = number + 1 == parts.len();
            for at in std::mem::take(&mut folders) {
                if !part.contains(['*', '?', '[']) {
                    folders.push(at.join(part));
                    continue;
                }
                for entry in std::fs::read_dir(&at).into_iter().flatten().flatten() {
                    self.entries += 1;
                    if self.entries > MOST_ENTRIES {
                        return self.permit.reads_folder(&at);
                    }
                    if fits(part, &entry.file_name().to_string_lossy()) && (is_last || entry.path().is_dir()) {
                        folders.push(entry.path());
                    }
                }
            }
        }
        for path in folders {
            let real = path.canonicalize().unwrap_or(path);
            if reading != FolderReading::None && real.is_dir() {
                self.folder(&real, reading, None);
            } else {
                self.permit.reads_content(&real);
            }
        }
    }

    /// Counts the files of earlier versions that git shows (`HEAD:.env`): they need not be there any more.
    fn earlier_versions(&self, line: &[&str]) {
        const SHOW: &[&str] = &["archive", "blame", "cat-file", "checkout", "diff", "log", "restore", "show"];
        if line.iter().any(|word| SHOW.contains(word)) {
            let named = line.iter().filter_map(|word| word.rsplit_once(':')).map(|(_, path)| path);
            named.filter(|path| !path.starts_with("//")).for_each(|path| self.permit.reads_content(Path::new(path)));
        }
    }

    /// Counts all files of a folder, or those whose names fit a pattern. Links to folders are not followed.
    fn folder(&mut self, folder: &Path, reading: FolderReading, pattern: Option<&str>) {
        let mut waiting = vec![folder.to_owned()];
        while let Some(at) = waiting.pop() {
            if self.permit.has_read_secrets() {
                return;
            }
            for entry in std::fs::read_dir(&at).into_iter().flatten().flatten() {
                self.entries += 1;
                if self.entries > MOST_ENTRIES {
                    return self.permit.reads_folder(folder);
                }
                let name = entry.file_name();
                let is_left_out = name.as_encoded_bytes().starts_with(b".") || name == "node_modules";
                if is_left_out && reading == FolderReading::Plain {
                    continue;
                }
                let (path, kind) = (entry.path(), entry.file_type());
                let is_meant = || pattern.is_none_or(|pattern| fits(pattern, &name.to_string_lossy()));
                match kind {
                    Ok(kind) if kind.is_dir() => waiting.push(path),
                    _ if !is_meant() => {}
                    Ok(kind) if kind.is_symlink() => {
                        path.canonicalize().iter().for_each(|real| self.permit.reads_content(real))
                    }
                    _ if is_config(&path) && !holds_password(&path) => {}
                    _ => self.permit.reads_content(&path),
                }
            }
        }
    }
}

/// Whether a name may be one that a pattern of a shell stands for; a set (`[a-c]`) counts as any character. Hidden files are meant by
/// patterns that begin with a dot.
fn fits(pattern: &str, name: &str) -> bool {
    let (pattern, chars): (Vec<char>, Vec<char>) = (pattern.chars().collect(), name.chars().collect());
    let (mut at, mut seen, mut star) = (0, 0, None);
    if name.starts_with('.') && !pattern.starts_with(&['.']) {
        return false;
    }
    while seen < chars.len() {
        let set = (pattern.get(at) == Some(&'[')).then(|| pattern[at..].iter().position(|c| *c == ']')).flatten();
        match pattern.get(at) {
            Some('*') => {
                star = Some((at, seen));
                at += 1;
            }
            Some('[') if set.is_some() => (at, seen) = (at + set.unwrap_or(0) + 1, seen + 1),
            Some(c) if *c == '?' || *c == chars[seen] => (at, seen) = (at + 1, seen + 1),
            _ => match star {
                Some((back, from)) => {
                    star = Some((back, from + 1));
                    (at, seen) = (back + 1, from + 1);
                }
                None => return false,
            },
        }
    }
    pattern[at..].iter().all(|c| *c == '*')
}

/// Whether a file is the configuration of a repository. Every repository has one, and few have a password in it.
fn is_config(path: &Path) -> bool {
    path.ends_with(".git/config")
}

fn holds_password(config: &Path) -> bool {
    let Ok(bytes) = pijs_durable::read_regular(config, LONGEST_CONFIG) else { return true };
    let text = String::from_utf8_lossy(&bytes).to_ascii_lowercase();
    let has_user = |line: &str| line.split_once("://").is_some_and(|(_, rest)| rest.contains('@'));
    text.lines()
        .any(|line| has_user(line) || ["extraheader", "password", "token"].iter().any(|word| line.contains(word)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_stands_for_names() {
        for (pattern, name) in [
            ("*", "a"),
            (".e*", ".env"),
            (".en?", ".env"),
            (".[e-f]nv", ".env"),
            ("*.key", "a.b.key"),
            ("a*c*", "abcd"),
            ("[", "["),
        ] {
            assert!(fits(pattern, name), "{pattern} {name}");
        }
        for (pattern, name) in
            [("*", ".env"), ("?env", ".env"), ("*.ts", "a.key"), ("a", "ab"), ("ab", "a"), ("[a]", "")]
        {
            assert!(!fits(pattern, name), "{pattern} {name}");
        }
    }

    #[test]
    fn a_line_of_a_shell_reads_what_one_program_lists_and_another_takes() {
        let of = |line: &str| {
            let args = ["-c".to_owned(), line.to_owned()];
            let words: Vec<&str> = args.iter().flat_map(|arg| arg.split(is_between_words)).collect();
            reading("bash", &args, &words, &args.each_ref().map(String::as_str))
        };
        for all in [
            "find . -type f | xargs cat",
            "cat $(find . -type f)",
            "ls -a|while read f; do cat $f; done",
            "cd x && tar c .",
        ] {
            assert_eq!(of(all), FolderReading::All, "{all}");
        }
        for none in ["find . -name '*.ts' | head", "git status", "cat x | sort", "ls -la"] {
            assert_eq!(of(none), FolderReading::None, "{none}");
        }
    }
}
