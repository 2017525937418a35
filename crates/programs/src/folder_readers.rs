//! Classifies programs that read all files of a folder: one that their arguments name, or their working folder.
//!
//! Files that are named individually appear in the arguments. These tables list programs that read whole folders: archivers,
//! recursive copies and searches, and commands of git that read the work tree.

use super::{Kind, kind_of, name_of};

/// Files in folders that a program reads, given its arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum FolderReading {
    /// Only named files, no folders.
    None,
    /// All files of the folders that are named.
    Named,
    /// All files of a folder except hidden files and installed packages.
    Plain,
    /// All files of a folder.
    All,
}

/// Maximum number of words of one call that are checked.
const MAX_WORDS: usize = 20_000;

/// Programs that print names of files.
const LISTERS: &[&str] = &["fd", "fdfind", "find", "locate", "ls", "ls-files", "rg", "tree"];
/// Programs and shell builtins that read names from their input.
const READ_NAMES: &[&str] = &["mapfile", "parallel", "read", "readarray", "xargs"];

/// Archivers, and programs that copy folders recursively.
const TREE_READERS: &[&str] = &[
    "7z",
    "7za",
    "7zr",
    "afio",
    "bsdcpio",
    "bsdtar",
    "bsdzip",
    "borg",
    "cpio",
    "dar",
    "ditto",
    "duplicity",
    "gtar",
    "jar",
    "mkisofs",
    "mksquashfs",
    "genisoimage",
    "pax",
    "rar",
    "rclone",
    "restic",
    "rsync",
    "scp",
    "sftp",
    "star",
    "tar",
    "unison",
    "xorriso",
    "zip",
];

/// Searches that recurse by default and skip hidden and ignored files.
const SEARCHES: &[&str] = &["ag", "fd", "fdfind", "pt", "rg"];

/// Searches that recurse by default.
const OPEN_SEARCHES: &[&str] = &["ack", "rgrep", "sift", "ucg"];

/// Options of searches that include hidden or ignored files; they may be abbreviated.
const UNRESTRICTED: &[&str] = &[
    "--all-text",
    "--all-types",
    "--hidden",
    "--no-ignore",
    "--search-binary",
    "--skip-vcs-ignores",
    "--unrestricted",
];

/// Suffixes of source files. A pattern with one of these suffixes matches no file with secrets.
const CODE: &[&str] = &[
    "c", "cc", "cjs", "cpp", "css", "go", "h", "hpp", "html", "java", "js", "jsx", "kt", "lua", "md", "mjs", "php",
    "py", "rb", "rs", "sass", "scala", "scss", "sh", "sql", "svelte", "swift", "toml", "ts", "tsx", "txt", "vue",
    "yaml", "yml",
];

/// Programs that compare the files of two folders.
const COMPARERS: &[&str] = &["colordiff", "diff", "gdiff"];

/// Programs that recurse with an option: names of the program, letters of the option, and its long names.
const RECURSIVE: &[(&[&str], &str, &[&str])] = &[
    (&["cp", "gcp"], "rRa", &["--archive", "--recursive"]),
    (
        &["egrep", "fgrep", "ggrep", "grep", "pcre2grep", "pcregrep", "zgrep"],
        "rR",
        &["--dereference-recursive", "--recursive"],
    ),
    (&["ugrep"], "rRS123456789", &["--dereference-recursive", "--recursive"]),
    (&["gzip", "lz4", "pigz", "zstd"], "r", &["--recursive"]),
    (&["fd", "fdfind"], "xX", &["--exec", "--exec-batch"]),
];

/// Predicates of `find` that run a program on the files found.
const FIND_RUNS: &[&str] = &["-exec", "-execdir", "-ok", "-okdir"];

/// Commands of git that read all files of a tree.
const GIT_READERS: &[&str] = &["archive", "bundle", "fast-export", "grep"];

/// Commands that pack a folder.
const PACKERS: &[(&str, &str)] = &[
    ("cargo", "package"),
    ("docker", "build"),
    ("docker", "cp"),
    ("npm", "pack"),
    ("npm", "publish"),
    ("pnpm", "pack"),
    ("yarn", "pack"),
];

/// Returns which files a program with these arguments reads, in folders named by the arguments and in its working folder. If the
/// program runs the command line in its arguments, each word may be another program.
pub fn folder_reading(command: &str, args: &[&str]) -> FolderReading {
    let name = name_of(command).to_ascii_lowercase();
    let whole = command.rsplit(['/', '\\']).next().unwrap_or(command).to_ascii_lowercase();
    let is = |names: &[&str]| names.contains(&name.as_str()) || names.contains(&whole.as_str());
    let has_word = |words: &[&str]| args.iter().any(|arg| words.contains(arg));
    let has_letter = |letters: &str| {
        let clusters = args.iter().filter_map(|arg| arg.strip_prefix('-')).filter(|rest| !rest.starts_with('-'));
        clusters.flat_map(str::chars).any(|letter| letters.contains(letter))
    };
    if is(TREE_READERS)
        || (is(&["find", "gfind"]) && has_word(FIND_RUNS))
        || (is(&["git"]) && has_word(GIT_READERS))
        || PACKERS.iter().any(|(program, word)| is(&[program]) && args.contains(word))
        || is(OPEN_SEARCHES)
        || RECURSIVE.iter().any(|(names, letters, words)| is(names) && (has_letter(letters) || has_option(args, words)))
        || (name.ends_with("grep") && recurses_by_value(args))
    {
        return FolderReading::All;
    }
    if is(SEARCHES) {
        let is_unrestricted = has_letter("uaH.")
            || has_option(args, UNRESTRICTED)
            || args.iter().any(|arg| arg.starts_with("--no-ignore"))
            || (is(&["rg"]) && names_hidden_files(args));
        return if is_unrestricted { FolderReading::All } else { FolderReading::Plain };
    }
    if is(COMPARERS) { FolderReading::Named } else { FolderReading::None }
}

/// Returns whether the arguments contain one of these long options, or an abbreviation of it.
fn has_option(args: &[&str], options: &[&str]) -> bool {
    args.iter().any(|arg| is_abbreviation(arg, options))
}

fn is_abbreviation(arg: &str, options: &[&str]) -> bool {
    let name = arg.split_once('=').map_or(arg, |(name, _)| name);
    name.len() > 2 && options.iter().any(|option| option.starts_with(name))
}

/// Returns whether the value of an option makes `grep` recurse: `--dir=rec`, `-d recurse`.
fn recurses_by_value(args: &[&str]) -> bool {
    let is_value = |value: &str| !value.is_empty() && "recurse".starts_with(value);
    let takes = |arg: &str| is_abbreviation(arg, &["--directories"]) || (arg.starts_with('-') && arg.ends_with('d'));
    args.iter().any(|arg| arg.split_once('=').is_some_and(|(name, value)| takes(name) && is_value(value)))
        || args.windows(2).any(|pair| takes(pair[0]) && is_value(pair[1]))
}

/// Returns whether patterns of `rg` may match hidden files, which it then reads.
fn names_hidden_files(args: &[&str]) -> bool {
    let behind = args.windows(2).filter(|pair| {
        let is_cluster = !pair[0].starts_with("--") && pair[0].starts_with('-') && pair[0].ends_with('g');
        is_cluster || matches!(pair[0], "--glob" | "--iglob")
    });
    let joined = args.iter().filter_map(|arg| {
        let short = arg.strip_prefix('-').filter(|rest| !rest.starts_with('-')).and_then(|rest| rest.split_once('g'));
        let long = arg.strip_prefix("--glob=").or_else(|| arg.strip_prefix("--iglob="));
        long.or(short.map(|(_, glob)| glob.strip_prefix('=').unwrap_or(glob)))
    });
    let is_open = |glob: &str| {
        let is_code =
            glob.rsplit_once("*.").is_some_and(|(_, ending)| CODE.contains(&ending)) && !glob.starts_with('.');
        !glob.is_empty() && !glob.starts_with('!') && !is_code
    };
    behind.map(|pair| pair[1]).chain(joined).any(is_open)
}

/// Like [`folder_reading`], but treats every word as a possible program name: for the command lines of shells, `env`, `xargs`,
/// `find` and `sudo`.
fn folder_reading_of_line(words: &[&str]) -> FolderReading {
    let each = (0..words.len()).map(|at| folder_reading(words[at], &words[at + 1..]));
    each.max().unwrap_or(FolderReading::None)
}

/// Returns how the program of a call reads folders. In an argument for an interpreter, the command may begin at any of the words
/// `line` of `texts`.
pub fn folder_reading_of_call(command: &str, args: &[String], line: &[&str], texts: &[&str]) -> FolderReading {
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    let own = folder_reading(command, &words);
    if kind_of(command) != Kind::Interpreter {
        return own;
    }
    let has = |words: &[&str]| line.iter().any(|word| words.contains(&name_of(word)));
    let is_substituted = || texts.iter().any(|text| text.contains("$(") || text.contains('`') || text.contains("<("));
    // One program may print file names, and another one may read those files.
    if has(LISTERS) && (has(READ_NAMES) || is_substituted()) {
        return FolderReading::All;
    }
    let words: Vec<&str> = line.iter().copied().filter(|word| !word.is_empty()).take(MAX_WORDS).collect();
    own.max(folder_reading_of_line(&words))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(line: &str) -> FolderReading {
        let words: Vec<&str> = line.split(' ').collect();
        folder_reading(words[0], &words[1..])
    }

    #[test]
    fn programs_that_read_whole_folders_are_recognised() {
        for all in [
            "tar cf x.tar .",
            "/usr/bin/tar -c src",
            "zip -r x .",
            "rsync -a . there",
            "cp -r . x",
            "cp -a . x",
            "cp --recursive . x",
            "grep -rn word .",
            "grep -d recurse word .",
            "grep --directories=recurse x .",
            "grep --recurs x .",
            "grep --dir=recurse x .",
            "grep --dir=rec x .",
            "grep -id rec x .",
            "rgrep x",
            "rg -g .e* x",
            "rg -g.e* x",
            "rg -ng *.env x",
            "rg --glob=* x",
            "rg --unrestricted x",
            "ag --hid x",
            "ack x",
            "gzip --rec x",
            "find . -type f -exec cat {} +",
            "git archive HEAD",
            "git -C x bundle create y --all",
            "rg -uu x",
            "rg --hidden x",
            "fd -x cat",
            "npm pack",
            "7z a x.7z .",
        ] {
            assert_eq!(of(all), FolderReading::All, "{all}");
        }
        for none in [
            "cat x",
            "cp x y",
            "grep word x",
            "find . -name x",
            "git status",
            "git diff",
            "ls -R .",
            "npm test",
            "sed -r s/a/b/ x",
        ] {
            assert_eq!(of(none), FolderReading::None, "{none}");
        }
        for plain in ["rg word src", "rg -g *.ts word", "rg -g !node_modules word", "rg -tts --glob=**/*.rs word"] {
            assert_eq!(of(plain), FolderReading::Plain, "{plain}");
        }
        for named in ["diff -ruN a b", "diff -N a .", "diff a b"] {
            assert_eq!(of(named), FolderReading::Named, "{named}");
        }
        assert_eq!(folder_reading_of_line(&["-c", "cd", "x", "tar", "c", "."]), FolderReading::All);
        assert_eq!(folder_reading_of_line(&["-c", "git", "status"]), FolderReading::None);
        assert_eq!(folder_reading_of_line(&[]), FolderReading::None);
    }
}
