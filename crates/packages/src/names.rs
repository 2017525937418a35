//! Checks the names of a package's files.
//!
//! [`check`] accepts one component of a path if every file system can store it, every system reads it as the same name, a
//! terminal shows all of it, and no version control system treats the folder as a repository. [`fold`] maps names that a file
//! system can confuse to one name. Archives and git trees are checked entry by entry; [`check_folder`] checks a local folder,
//! which is used in place and can be the user's working copy.

use crate::error::{InstallCode, PackageError, Result};
use crate::source::printable;
use pijs_protocol::characters::is_invisible;
use pijs_protocol::guard;
use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};
use unicode_normalization::UnicodeNormalization;

/// Maximum number of files and folders of one local package that are checked.
const MAX_ENTRIES: usize = 1_000_000;
/// Maximum size of a `.git` file that is read, in bytes.
const MAX_GIT_FILE_BYTES: u64 = 4096;

/// Folders in which version control systems keep a repository with its configuration and hooks.
const REPOSITORIES: &[&str] = &[
    "_darcs",
    ".bzr",
    ".cvs",
    ".darcs",
    ".fslckout",
    ".git",
    ".hg",
    ".jj",
    ".pijul",
    ".sl",
    ".svn",
    "_fossil_",
    "_svn",
];

/// Reason for the refusal of a folder that git takes for a repository.
pub(crate) const BARE: &str = "git would take the folder for a repository with settings of its own";

/// Device names of Windows, in every folder and with every suffix.
const DEVICES: &[&str] = &["AUX", "CLOCK$", "CON", "CONIN$", "CONOUT$", "NUL", "PRN"];
/// Device names that are followed by a digit.
const NUMBERED_DEVICES: &[&str] = &["COM", "LPT"];

/// Returns whether a character is a variation selector of emoji names.
fn is_variation(character: char) -> bool {
    matches!(character, '\u{fe0e}' | '\u{fe0f}')
}

/// Checks one component of a path.
pub(crate) fn check(name: &str) -> std::result::Result<(), (InstallCode, &'static str)> {
    let path = |why| Err((InstallCode::Path, why));
    if name.len() > 255 {
        return Err((InstallCode::Size, "a name of more than 255 bytes"));
    }
    match name {
        "" => return path("an empty name, or an absolute path"),
        ".." => return path("it leaves the package"),
        _ => {}
    }
    if is_repository(name) && guard!(NamesRepository) {
        return path("a version control system would take it for a repository with settings of its own");
    }
    if name.chars().any(|c| c.is_control() || matches!(c, '\\' | ':')) {
        return path("a control character, backslash or colon in the name");
    }
    if name.ends_with(['.', ' ']) {
        return path("a name that ends in a dot or a blank");
    }
    if !unicode_normalization::is_nfc(name) {
        return path("the name is not in Unicode normal form C");
    }
    if guard!(NamesPortable) {
        if name.contains(['<', '>', '"', '|', '?', '*']) {
            return path("one of the characters < > \" | ? * in the name, which Windows cannot write");
        }
        if is_device(name) {
            return path("a device name of Windows");
        }
        if name.chars().any(|c| is_invisible(c) && !is_variation(c)) {
            return path("an invisible or bidirectional control character in the name");
        }
    }
    Ok(())
}

/// Returns whether Windows opens a device for this name, such as `aux.ts` or `COM²`.
fn is_device(name: &str) -> bool {
    let stem = name.split('.').next().unwrap_or_default();
    let stem: String = stem.nfkc().filter(|c| !is_invisible(*c)).collect::<String>().to_uppercase();
    let stem = stem.trim_end();
    let is_numbered = |device: &&str| {
        stem.strip_prefix(*device).is_some_and(|digit| digit.len() == 1 && digit.as_bytes()[0].is_ascii_digit())
    };
    DEVICES.contains(&stem) || NUMBERED_DEVICES.iter().any(is_numbered)
}

/// Returns whether a file system opens a repository's folder for this name: in any letter case, with characters that HFS+
/// ignores, with suffixes that Windows drops (`.git.`, `.git::$INDEX_ALLOCATION`), or as a short name (`git~1`).
fn is_repository(name: &str) -> bool {
    let visible: String = name.nfkc().filter(|c| !is_invisible(*c)).collect();
    let folded = fold(&visible);
    let folded = folded.split([':', '\\']).next().unwrap_or_default().trim_end_matches(['.', ' ']);
    let is_short = |known: &&str| {
        let short = known.trim_start_matches(['.', '_']);
        let short = &short[..short.len().min(6)];
        folded
            .strip_prefix(short)
            .and_then(|rest| rest.strip_prefix('~'))
            .is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
    };
    // CVS writes its folder in capitals; `cvs` in a package is an ordinary name.
    visible == "CVS" || REPOSITORIES.contains(&folded) || REPOSITORIES.iter().any(is_short)
}

/// Returns whether git takes a folder for a repository whatever its name: it has a `HEAD`, and either its own objects and
/// references or the name of another folder with them. Beside a file `HEAD` among packages, an install may put packages of
/// these names.
///
/// `is_folder` takes names in lower case, and returns whether the entry is a folder; `None` if there is none.
pub(crate) fn is_bare_repository(folder: &[&str], is_folder: impl Fn(&str) -> Option<bool>) -> bool {
    let has = |name: &str| is_folder(name).is_some();
    let is_joined = || holds_packages(folder) && is_folder("head") == Some(false);
    has("head") && (is_joined() || has("commondir") || (has("objects") && has("refs"))) && guard!(NamesRepository)
}

/// Returns whether an install may put other packages into a folder: `node_modules`, or a scope in it.
fn holds_packages(folder: &[&str]) -> bool {
    match folder {
        [.., above, scope] if scope.starts_with('@') => fold(above) == "node_modules",
        [.., last] => fold(last) == "node_modules",
        [] => false,
    }
}

/// Folds a path as a case-insensitive file system compares it. Lower case comes first, because capital `ẞ` has no longer form,
/// but `ß` has.
pub(crate) fn fold(path: &str) -> String {
    let visible: String = path.nfc().filter(|c| !is_variation(*c)).collect();
    visible.to_lowercase().to_uppercase().to_lowercase().nfc().collect()
}

/// Checks a path in a manifest; components that are patterns are not checked.
pub(crate) fn check_declared(path: &str) -> std::result::Result<(), (InstallCode, &'static str)> {
    let names = path.split('/').filter(|name| !matches!(*name, "" | "." | ".."));
    names.filter(|name| !name.contains(['*', '?', '[', '{', '!', '+'])).try_for_each(check)
}

/// Checks every name below a local folder.
///
/// The folder can be a working copy: a repository at its top belongs to the user, and so do submodules whose repositories are in
/// it or outside of the folder. Any other repository inside is refused. Files in `node_modules` were put there by a package
/// manager and are checked for repositories only.
pub(crate) fn check_folder(root: &Path) -> Result<()> {
    if !guard!(NamesFolder) {
        return Ok(());
    }
    let mut folders = vec![(root.to_path_buf(), false)];
    let mut seen = 0;
    while let Some((folder, is_installed)) = folders.pop() {
        let mut taken: BTreeMap<String, String> = BTreeMap::new();
        let failed = |error| PackageError::io("list it", &folder, error);
        let listed =
            std::fs::read_dir(&folder).map_err(failed)?.collect::<std::io::Result<Vec<_>>>().map_err(failed)?;
        seen += listed.len();
        if seen > MAX_ENTRIES {
            let why = format!("more than {MAX_ENTRIES} files and folders");
            return Err(PackageError::new(InstallCode::Size, root.display().to_string(), why)
                .help("install the package's own folder"));
        }
        let above: Vec<_> = folder.iter().filter_map(|name| name.to_str()).collect();
        let is_folder = |name: &str| {
            let entry = listed.iter().find(|entry| entry.file_name().eq_ignore_ascii_case(name))?;
            Some(entry.file_type().is_ok_and(|kind| kind.is_dir()))
        };
        if is_bare_repository(&above, is_folder) {
            return Err(refuse(&folder, BARE).help("move it out of the folder"));
        }
        for entry in listed {
            let (path, name) = (entry.path(), entry.file_name());
            let kind = entry.file_type().map_err(|error| PackageError::io("read it", &path, error))?;
            let Some(name) = name.to_str() else {
                return Err(refuse(&path, "the name is not UTF-8"));
            };
            if is_repository(name) {
                if folder != root && !is_users_submodule(&path, root) && guard!(NamesRepository) {
                    return Err(refuse(&path, "a repository inside of the package, whose settings name programs")
                        .help("move it out of the folder, or add it as a submodule of your own repository"));
                }
                continue;
            }
            if !is_installed {
                check(name).map_err(|(code, why)| {
                    PackageError::new(code, printable(&path.to_string_lossy()), why).help("rename it")
                })?;
                if let Some(other) = taken.insert(fold(name), name.to_owned())
                    && guard!(ArchiveTwins)
                {
                    let why = format!("cannot be told from {} on every file system", printable(&other));
                    return Err(refuse(&path, &why).help("rename one of the two"));
                }
            }
            if kind.is_dir() {
                folders.push((path, is_installed || name == "node_modules"));
            }
        }
    }
    Ok(())
}

fn refuse(path: &Path, why: &str) -> PackageError {
    PackageError::new(InstallCode::Path, printable(&path.to_string_lossy()), why)
}

/// Returns whether a `.git` file names a repository of the user: inside the repository at the top, or inside the repository of a
/// folder above the package, of which the package is a part or a work tree.
fn is_users_submodule(path: &Path, root: &Path) -> bool {
    let read = || {
        let text = String::from_utf8(pijs_durable::read_regular(path, MAX_GIT_FILE_BYTES).ok()?).ok()?;
        let named = text.strip_prefix("gitdir:")?.trim();
        let target = std::fs::canonicalize(path.parent()?.join(named)).ok()?;
        let root = std::fs::canonicalize(root).ok()?;
        Some(match target.strip_prefix(&root) {
            Ok(inside) => {
                matches!(inside.components().next(), Some(Component::Normal(first)) if first == ".git")
            }
            Err(_) => {
                let repository =
                    target.ancestors().find(|folder| folder.file_name().is_some_and(|name| name == ".git"));
                let above = repository.and_then(Path::parent);
                above.is_some_and(|above| root.starts_with(above)) || !guard!(NamesOutsideRepository)
            }
        })
    };
    read().unwrap_or(false)
}

/// Checks the name of a single file that is installed.
pub(crate) fn check_file(path: &Path) -> Result<()> {
    let name = path.file_name().map(PathBuf::from).unwrap_or_default();
    match name.to_str() {
        None => Err(refuse(path, "the name is not UTF-8")),
        Some(name) => check(name)
            .map_err(|(code, why)| PackageError::new(code, printable(&path.to_string_lossy()), why).help("rename it")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_some_system_cannot_write_or_reads_differently_are_refused() {
        for name in [
            "CON",
            "con.ts",
            "aux.ts",
            "Nul.tar.gz",
            "prn",
            "com1",
            "COM²",
            "lpt³.md",
            "LPT0",
            "conin$",
            "CONOUT$.x",
            "ＣＯＮ",
            "aux .ts",
            "a<b",
            "a|b",
            "what?",
            "a*b",
            "\"x\"",
            "a\u{202e}b",
            "a\u{200b}",
            "\u{feff}x",
            "a\u{ad}b",
            "a\u{2028}b",
            "a\u{e0041}b",
            "x.",
            "x ",
            "a:b",
            "a\\b",
            "a\u{7f}",
            "",
            "..",
            "a\u{3164}",
        ] {
            let refused = check(name).expect_err(name);
            assert_eq!(refused.0, InstallCode::Path, "{name:?}");
        }
        for name in [
            "a.ts",
            "console.ts",
            "auxiliary",
            "com",
            "com10",
            "COM.ts",
            "nulls.js",
            "[...slug].tsx",
            "(group)",
            "@x",
            "ä",
            "❤\u{fe0f}.svg",
            "日本",
            ".gitignore",
            ".github",
            ".gitmodules",
            ".hgignore",
            "git",
            "cvs",
            "svn~",
            "git~x",
            "+page.svelte",
            "a b",
            "a~1",
        ] {
            assert_eq!(check(name), Ok(()), "{name:?}");
        }
    }

    #[test]
    fn a_repository_is_known_by_every_name_that_opens_it() {
        for name in [
            ".git",
            ".GIT",
            ".gIt.",
            ".git ",
            ".git. .",
            "git~1",
            "GIT~12",
            ".git::$INDEX_ALLOCATION",
            ".g\u{200c}it",
            ".gi\u{200d}t",
            "\u{feff}.git",
            ".hg",
            ".HG",
            "hg~1",
            ".svn",
            "_svn",
            "svn~1",
            ".bzr",
            ".jj",
            ".pijul",
            "_darcs",
            ".sl",
            "CVS",
            ".ｇｉｔ",
            ".g\u{131}t\u{200b}".replace('\u{131}', "i").as_str(),
        ] {
            assert_eq!(check(name).expect_err(name).0, InstallCode::Path, "{name:?}");
            assert!(is_repository(name), "{name:?}");
        }
    }

    #[test]
    fn names_that_differ_in_letter_case_or_a_variation_selector_fold_together() {
        assert_eq!(fold("A/ß.ts"), fold("a/SS.ts"));
        assert_eq!(fold("❤.svg"), fold("❤\u{fe0f}.svg"));
        assert_ne!(fold("a.ts"), fold("b.ts"));
    }

    #[test]
    fn a_working_copy_installs_and_a_repository_inside_of_it_does_not() {
        let folder = tempfile::tempdir().expect("a folder");
        let root = folder.path();
        let write = |path: &str, text: &str| {
            let path = root.join(path);
            std::fs::create_dir_all(path.parent().expect("a parent")).expect("made");
            std::fs::write(path, text).expect("written");
        };
        write("index.ts", "");
        write(".git/refs/heads/aux", "");
        write(".git/modules/lib/HEAD", "");
        write("lib/.git", "gitdir: ../.git/modules/lib\n");
        write("node_modules/x/a:b", "");
        check_folder(root).expect("a working copy");

        write("lib/.git", "gitdir: ../evil\n");
        write("evil/HEAD", "");
        assert_eq!(check_folder(root).expect_err("a file that names another").code, InstallCode::Path);
        std::fs::remove_dir_all(root.join("lib")).expect("removed");
        write("node_modules/x/.GIT/config", "");
        assert_eq!(check_folder(root).expect_err("in node_modules").code, InstallCode::Path);
        std::fs::remove_dir_all(root.join("node_modules")).expect("removed");
        check_folder(root).expect("clean");
        write("bare/HEAD", "");
        write("bare/objects/x", "");
        check_folder(root).expect("no repository yet");
        write("bare/refs/x", "");
        assert_eq!(check_folder(root).expect_err("a bare repository").code, InstallCode::Path);
        std::fs::remove_dir_all(root.join("bare")).expect("removed");
        write("sub/node_modules/Head", "");
        assert_eq!(check_folder(root).expect_err("beside packages").code, InstallCode::Path);
        std::fs::remove_dir_all(root.join("sub")).expect("removed");
        write("skills/aux.md", "");
        assert_eq!(check_folder(root).expect_err("a device").code, InstallCode::Path);
    }
}
