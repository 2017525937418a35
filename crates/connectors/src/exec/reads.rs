//! Counts the files that a program may read as read by the extension, for `egress`: the extension gets the program's output and
//! the files it writes, which may contain what the program read.
//!
//! | in the arguments | counted |
//! |---|---|
//! | the name of a file, also in a shell's command line, after an option, or relative to a named folder | that file |
//! | a pattern of a shell or of `curl` | the files that may match it |
//! | a file URL (`file:///p/%2eenv`) | that file |
//! | a file of an earlier version (`git show HEAD:.env`, `git blame HEAD~ -- a/.env`) | that name |
//! | a folder, for a program that reads whole folders ([`folder_reading_of_call`]) | each file in it, or the folder as a whole if it is too large |
//! | more names and folders than the limit | the working folder as a whole |
//! | folders that are compared (`diff`) | each file in the named folders |
//! | a file with a list of files | the listed files |

use pijs_hostcall::Permit;
use pijs_hostcall::places::{may_hold_secrets, normal};
use pijs_programs::file_addresses::{decoded, expanded};
use pijs_programs::shell_words::matches_pattern;
use pijs_programs::{FolderReading, Kind, files_of_argument, folder_reading_of_call, kind_of, name_of, possible_files};
use pijs_protocol::guard;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Maximum number of directory entries, and of names relative to folders, that are checked for one program.
const MAX_ENTRIES: usize = 100_000;
/// Maximum number of words of one call that are checked.
const MAX_WORDS: usize = 20_000;
/// Maximum number of words of one write to a program for which links are resolved.
const MAX_WRITTEN: usize = 2000;
/// Maximum number of bytes that are read of a list of files.
const LONGEST_LIST: u64 = 1 << 20;
/// Maximum number of bytes of a repository's configuration that are searched for passwords.
const LONGEST_CONFIG: u64 = 1 << 20;
/// Long options whose value is a file with a list of files, for any program; abbreviations match as well.
const LONG_LISTS: &[&str] = &[
    "--filelist",
    "--files-from",
    "--files0-from",
    "--from-file",
    "--include-from",
    "--input-file",
    "--null-files-from",
];
/// Short options whose value is a file with a list of files, for programs that read folders and for `curl`.
const LISTS: &[&str] = &["-@", "-I", "-K", "-T"];

/// Counts the files that a program with these arguments and this input may read in its working folder.
pub(super) fn note(permit: &Permit, command: &str, args: &[String], input: &[u8], cwd: &Path) {
    if !guard!(ExecArgumentReads) || permit.has_read_secrets() {
        return;
    }
    let is_folder_known = guard!(ExecFolderReads);
    let input = String::from_utf8_lossy(if is_folder_known { input } else { &[] });
    let texts: Vec<&str> = args.iter().map(String::as_str).chain(input.split(['\n', '\0'])).collect();
    let line: Vec<&str> = texts.iter().flat_map(|text| text.split(is_between_words)).collect();
    let runs_words = kind_of(command) == Kind::Interpreter && is_folder_known;
    let reading =
        if is_folder_known { folder_reading_of_call(command, args, &line, &texts) } else { FolderReading::None };
    let is_curl = is_folder_known
        && (name_of(command) == "curl" || (runs_words && line.iter().any(|word| name_of(word) == "curl")));
    let lists = if is_folder_known { lists(args, cwd, reading != FolderReading::None || is_curl) } else { Vec::new() };
    let mut written: Vec<String> = Vec::new();
    if is_folder_known {
        written.extend(texts.iter().filter_map(|text| decoded(text, is_curl)));
        written.extend(texts.iter().filter_map(|text| unquoted(text.trim())));
    }
    let texts: Vec<&str> = texts.into_iter().chain(written.iter().map(String::as_str)).collect();
    let parts = texts.iter().flat_map(|text| possible_files(text).chain(text.split(is_between_names)));
    let listed = lists.iter().flat_map(|list| list.split(['\n', '\0']).chain(list.split(is_between_names)));
    let named = parts.chain(line.iter().copied()).chain(listed).filter(|word| !word.is_empty());
    let named: BTreeSet<&str> = named.take(MAX_WORDS).collect();
    // Folders first: other names may be relative to them.
    let mut folders = BTreeSet::from([cwd.to_owned()]);
    if is_folder_known {
        folders.extend(named.iter().filter_map(|word| folder_at(cwd, word)));
    }
    if folders.len() > 1 && folders.len().saturating_mul(named.len()) > MAX_ENTRIES {
        return permit.reads_folder(cwd);
    }
    let mut reads = Reads { permit, entries: 0 };
    for folder in &folders {
        named.iter().for_each(|word| reads.word(folder, word));
        if runs_words {
            line.iter().for_each(|word| reads.pattern(folder, word, reading));
        }
    }
    if is_curl {
        reads.addresses(cwd, &texts);
    }
    if is_folder_known && (name_of(command) == "git" || (runs_words && line.contains(&"git"))) {
        reads.earlier_versions(&line);
    }
    // A program without a folder among its arguments reads its working folder, unless its arguments name files.
    let names_own = || named.iter().any(|word| folder_at(cwd, word).is_some_and(|folder| folder == cwd));
    let is_default = folders.len() == 1 && reading != FolderReading::Named;
    let is_read = |folder: &&PathBuf| is_default || *folder != cwd || names_own();
    if reading != FolderReading::None {
        folders.iter().filter(is_read).for_each(|folder| reads.folder(folder, reading, None));
    }
}

/// Counts the files that are named in data written to a running program.
pub(super) fn note_input(permit: &Permit, data: &[u8]) {
    if !guard!(ExecFolderReads) || permit.has_read_secrets() {
        return;
    }
    let (text, cwd) = (String::from_utf8_lossy(data), &permit.places().project);
    let lines = || text.split(['\n', '\0']);
    let quoted: Vec<String> = lines().filter_map(|line| unquoted(line.trim())).collect();
    // A name may contain blanks.
    let words = text.split(is_between_words).chain(lines()).chain(quoted.iter().map(String::as_str));
    let words: BTreeSet<&str> = words.filter(|word| !word.is_empty()).collect();
    let reads = Reads { permit, entries: 0 };
    // `git cat-file --batch` reads names of files in earlier versions.
    words.iter().for_each(|word| reads.version(word));
    // Any name may be a link, and resolving it delays the write. Beyond the limit, only names that look like secrets are
    // resolved.
    for (number, word) in words.iter().flat_map(|word| files_of_argument(word)).enumerate() {
        if number < MAX_WRITTEN || may_hold_secrets(word) {
            reads.word(cwd, word);
        }
    }
}

/// Returns the name that git writes and reads as a string of C: `"src/\056env"`. Unknown escapes stand for their character.
fn unquoted(line: &str) -> Option<String> {
    let mut rest = line.strip_prefix('"')?.strip_suffix('"')?.bytes().peekable();
    let mut name = Vec::with_capacity(line.len());
    while let Some(byte) = rest.next() {
        if byte != b'\\' {
            name.push(byte);
            continue;
        }
        let mut octal = String::new();
        while octal.len() < 3
            && let Some(digit) = rest.next_if(|next| matches!(next, b'0'..=b'7'))
        {
            octal.push(char::from(digit));
        }
        name.extend(u8::from_str_radix(&octal, 8).ok().or_else(|| rest.next()));
    }
    Some(String::from_utf8_lossy(&name).into_owned())
}

fn is_between_words(c: char) -> bool {
    c.is_whitespace() || "'\"`;|&()<>{}$".contains(c)
}

fn is_between_names(c: char) -> bool {
    is_between_words(c) || ",:=".contains(c)
}

fn folder_at(cwd: &Path, word: &str) -> Option<PathBuf> {
    normal(cwd, Path::new(word)).canonicalize().ok().filter(|path| path.is_dir())
}

/// Returns the contents of the file lists that options name. `reads_short` enables the short options [`LISTS`].
fn lists(args: &[String], cwd: &Path, reads_short: bool) -> Vec<String> {
    let is_list = |option: &str| {
        let is_long = option.len() > 4 && LONG_LISTS.iter().any(|known| known.starts_with(option));
        is_long || (reads_short && LISTS.contains(&option))
    };
    let behind = args.windows(2).filter(|pair| is_list(&pair[0])).map(|pair| pair[1].as_str());
    let joined = args.iter().filter_map(|arg| {
        let (option, value) = arg.split_once('=').or_else(|| arg.split_at_checked(2))?;
        is_list(option).then_some(value)
    });
    let marked = args.iter().filter_map(|arg| arg.strip_prefix('@')).filter(|_| reads_short);
    let files = behind.chain(joined).chain(marked);
    let read = |file: &str| pijs_durable::read_regular(&normal(cwd, Path::new(file)), LONGEST_LIST).ok();
    files.filter_map(read).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).collect()
}

/// Counts the reads of one call.
struct Reads<'a> {
    permit: &'a Permit,
    /// Directory entries checked so far.
    entries: usize,
}

impl Reads<'_> {
    /// Counts the file that a word names relative to a folder.
    fn word(&self, folder: &Path, word: &str) {
        let Ok(real) = normal(folder, Path::new(word)).canonicalize() else { return };
        // A repository's configuration may contain the password of its remote.
        let is_repository = real.is_dir() && real.file_name().is_some_and(|name| name == ".git");
        self.permit.reads_content(&if is_repository { real.join("config") } else { real });
    }

    /// Counts the files that a shell pattern matches. Expands the pattern folder by folder, as a shell does. `**` matches a whole
    /// tree.
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
                    if self.entries > MAX_ENTRIES {
                        return self.permit.reads_folder(&at);
                    }
                    if matches_pattern(part, &entry.file_name().to_string_lossy()) && (is_last || entry.path().is_dir())
                    {
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

    /// Counts the files that patterns of `curl` match.
    fn addresses(&mut self, cwd: &Path, texts: &[&str]) {
        for text in texts.iter().filter(|text| text.contains(['{', '['])) {
            let Some(all) = expanded(text) else { return self.permit.reads_folder(cwd) };
            for part in all.iter().flat_map(|text| files_of_argument(text)) {
                self.word(cwd, part);
                self.pattern(cwd, part, FolderReading::None);
                // A range may match the dot of a hidden file.
                if part.contains("/*") || part.starts_with('*') {
                    let hidden = part.replace("/*", "/.*");
                    let hidden = hidden.strip_prefix('*').map_or(hidden.clone(), |rest| format!(".*{rest}"));
                    self.pattern(cwd, &hidden, FolderReading::None);
                }
            }
        }
    }

    /// Counts the files of earlier versions that git shows; they need not exist in the work tree.
    fn earlier_versions(&self, line: &[&str]) {
        const SHOW: &[&str] = &[
            "annotate",
            "archive",
            "blame",
            "cat-file",
            "checkout",
            "checkout-index",
            "diff",
            "diff-tree",
            "format-patch",
            "grep",
            "log",
            "restore",
            "show",
            "stash",
            "whatchanged",
        ];
        if line.iter().any(|word| SHOW.contains(word)) {
            line.iter().for_each(|word| self.version(word));
            line.iter().filter(|word| word.contains(['.', '/'])).for_each(|word| self.named(word));
        }
    }

    /// Counts the file that a word names in an earlier version (`HEAD:.env`).
    fn version(&self, word: &str) {
        word.rsplit_once(':').iter().for_each(|(_, path)| self.named(path));
    }

    fn named(&self, path: &str) {
        if !path.contains("//") {
            self.permit.reads_content(Path::new(path));
        }
    }

    /// Counts all files of a folder, or those whose names match a pattern. Links to folders are not followed.
    fn folder(&mut self, folder: &Path, reading: FolderReading, pattern: Option<&str>) {
        let mut waiting = vec![folder.to_owned()];
        while let Some(at) = waiting.pop() {
            if self.permit.has_read_secrets() {
                return;
            }
            for entry in std::fs::read_dir(&at).into_iter().flatten().flatten() {
                self.entries += 1;
                if self.entries > MAX_ENTRIES {
                    return self.permit.reads_folder(folder);
                }
                let name = entry.file_name();
                let is_left_out = name.as_encoded_bytes().starts_with(b".") || name == "node_modules";
                if is_left_out && reading == FolderReading::Plain {
                    continue;
                }
                let (path, kind) = (entry.path(), entry.file_type());
                let is_meant = || pattern.is_none_or(|pattern| matches_pattern(pattern, &name.to_string_lossy()));
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

/// Returns whether a file is the configuration of a repository. Few configurations contain a password, so the caller searches its
/// content.
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
    fn names_of_git_are_unquoted() {
        for (line, name) in [
            (r#""src/.en\166""#, Some("src/.env")),
            (r#""\056env""#, Some(".env")),
            (r#""a\"b\\c""#, Some("a\"b\\c")),
            (".env", None),
        ] {
            assert_eq!(unquoted(line).as_deref(), name, "{line}");
        }
    }

    #[test]
    fn a_line_of_a_shell_reads_what_one_program_lists_and_another_takes() {
        let of = |line: &str| {
            let args = ["-c".to_owned(), line.to_owned()];
            let words: Vec<&str> = args.iter().flat_map(|arg| arg.split(is_between_words)).collect();
            folder_reading_of_call("bash", &args, &words, &args.each_ref().map(String::as_str))
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
