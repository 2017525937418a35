//! Programs that read the files of a folder which their arguments name, or of the folder that they work in.
//!
//! The names of single files are found in the arguments themselves. Here a program says that it takes whole folders: an archiver, a
//! copy or a search that goes down into them, a command of git that reads the work tree.

use super::name_of;

/// How far a program with its arguments reads folders.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum FolderReading {
    /// It reads the files that are named, and none of a folder.
    None,
    /// It leaves out hidden files and installed packages.
    Plain,
    /// It reads everything in a folder.
    All,
}

/// Archivers, and programs that copy whole trees.
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

/// Searches that go down into folders without being told to, and leave out hidden and ignored files.
const SEARCHES: &[&str] = &["ack", "ag", "fd", "fdfind", "pt", "rg", "sift", "ucg"];

/// Programs that go down into folders when an option says so: its letters, and its words.
const RECURSIVE: &[(&[&str], &str, &[&str])] = &[
    (&["cp", "gcp"], "rRa", &["--archive", "--recursive"]),
    (
        &["egrep", "fgrep", "ggrep", "grep", "ugrep", "zgrep"],
        "rR",
        &["--dereference-recursive", "--directories=recurse", "--recursive", "recurse"],
    ),
    (&["diff", "gdiff"], "r", &["--recursive"]),
    (&["gzip", "pigz", "zstd"], "r", &["--recursive"]),
    (&["fd", "fdfind"], "xX", &["--exec", "--exec-batch"]),
];

/// Predicates of `find` that run a program for what is found.
const FIND_RUNS: &[&str] = &["-exec", "-execdir", "-ok", "-okdir"];

/// Commands of git that read all files of a tree.
const GIT_READERS: &[&str] = &["archive", "bundle", "fast-export", "grep"];

/// Commands that pack a whole folder.
const PACKERS: &[(&str, &str)] = &[
    ("cargo", "package"),
    ("docker", "build"),
    ("docker", "cp"),
    ("npm", "pack"),
    ("npm", "publish"),
    ("pnpm", "pack"),
    ("yarn", "pack"),
];

/// Says how far a program reads the folders that its arguments name and the one that it works in. Of a program that runs what its
/// arguments say, each word may be another program.
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
        || RECURSIVE.iter().any(|(names, letters, words)| is(names) && (has_letter(letters) || has_word(words)))
    {
        return FolderReading::All;
    }
    if is(SEARCHES) {
        let unrestricted =
            has_letter("uaH.") || args.iter().any(|arg| arg.starts_with("--no-ignore") || *arg == "--hidden");
        return if unrestricted { FolderReading::All } else { FolderReading::Plain };
    }
    FolderReading::None
}

/// Does the same for a line of words of which any may be a program: what a shell runs, or `env`, `xargs`, `find` or `sudo`.
pub fn folder_reading_of_line(words: &[&str]) -> FolderReading {
    let each = (0..words.len()).map(|at| folder_reading(words[at], &words[at + 1..]));
    each.max().unwrap_or(FolderReading::None)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(line: &str) -> FolderReading {
        let words: Vec<&str> = line.split(' ').collect();
        folder_reading(words[0], &words[1..])
    }

    #[test]
    fn what_takes_whole_folders_is_known() {
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
            "find . -type f -exec cat {} +",
            "git archive HEAD",
            "git -C x bundle create y --all",
            "diff -ruN a b",
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
        assert_eq!(of("rg word src"), FolderReading::Plain);
        assert_eq!(folder_reading_of_line(&["-c", "cd", "x", "tar", "c", "."]), FolderReading::All);
        assert_eq!(folder_reading_of_line(&["-c", "git", "status"]), FolderReading::None);
        assert_eq!(folder_reading_of_line(&[]), FolderReading::None);
    }
}
