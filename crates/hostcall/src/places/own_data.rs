//! Data of an extension in the extensions folder.
//!
//! Extensions may not write where pi looks for extensions, because files there run at the next start. Yet many extensions store
//! their data there: `extensions/NAME/config.json`, `extensions/NAME.json`, `extensions/NAME/logs/debug.jsonl`. The names of such
//! files identify them as data: no loader runs them. A package may write such files under its own name.

use crate::subject::Access;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// Suffixes of files that no loader runs.
const DATA: &[&str] = &[
    "json",
    "jsonc",
    "json5",
    "jsonl",
    "ndjson",
    "yaml",
    "yml",
    "toml",
    "ini",
    "conf",
    "csv",
    "txt",
    "md",
    "log",
    "db",
    "db-wal",
    "db-shm",
    "db-journal",
    "sqlite",
    "sqlite-wal",
    "sqlite-shm",
    "sqlite3",
    "lock",
    "pid",
    "cache",
];

/// Suffixes of temporary and backup files.
const ASIDE: &[&str] = &["tmp", "temp", "bak", "backup", "old", "new", "swp", "corrupt"];

/// Names of files that control the loading of code.
const MANIFESTS: &[&str] = &["extension.json", "package.json", "tsconfig.json", "jsconfig.json"];

/// Returns whether the path `names` in an `extensions` folder is data of the package at `root`, or a folder that is created for
/// such data.
pub(super) fn is_own_data(names: &[&OsStr], root: &Path, access: Access) -> bool {
    let Some(names) = names.iter().map(|name| name.to_str()).collect::<Option<Vec<&str>>>() else { return false };
    let Some(own) = own_name(root) else { return false };
    match *names.as_slice() {
        // Allows creating the folder itself if it does not exist.
        [] => access == Access::Make,
        [file] => (is_data(file) && is_own(stem(file), own)) || (access == Access::Make && is_own(file, own)),
        [folder, .., last] => is_own(folder, own) && (is_data(last) || access == Access::Make && !last.contains('.')),
    }
}

/// Returns the name for a package's data: the name of an installed package, or of a folder among the extensions.
pub(super) fn own_name(root: &Path) -> Option<&str> {
    let holder = root.parent()?;
    let is_scope = |name: &OsStr| name.as_encoded_bytes().starts_with(b"@");
    let holder = if is_scope(holder.file_name()?) { holder.parent()? } else { holder };
    let is_package = holder.file_name().is_some_and(|name| name == "node_modules" || name == "extensions");
    root.file_name()?.to_str().filter(|name| is_package && !name.starts_with('.'))
}

/// Returns the extension with a name in an extensions folder: a folder that pi loads, or a file. A folder with data only is not
/// an extension.
pub(super) fn extension_called(extensions: &Path, name: &str) -> Option<PathBuf> {
    const ENTRIES: &[&str] = &["extension.json", "index.js", "index.ts", "package.json"];
    const ENDINGS: &[&str] = &["js", "mjs", "ts"];
    let folder = extensions.join(name);
    let mut files = ENDINGS.iter().map(|ending| extensions.join(format!("{name}.{ending}")));
    match ENTRIES.iter().any(|entry| folder.join(entry).exists()) {
        true => Some(folder),
        false => files.find(|file| file.exists()),
    }
}

/// Returns whether a name belongs to the package; `pi-todo` may use `todo`.
fn is_own(name: &str, own: &str) -> bool {
    let short = own.strip_prefix("pi-").filter(|short| !short.is_empty());
    name == own || Some(name) == short
}

/// Returns a file name up to its first dot.
pub(super) fn stem(file: &str) -> &str {
    file.split_once('.').map_or(file, |(stem, _)| stem)
}

/// Returns whether the first suffix is a suffix of data files, and each further one is the suffix of a temporary or backup file.
fn is_data(file: &str) -> bool {
    let is_manifest = MANIFESTS.iter().any(|manifest| file.eq_ignore_ascii_case(manifest));
    let mut suffixes = file.strip_prefix('.').unwrap_or(file).split('.').skip(1);
    let is_first = |suffix: &str| DATA.contains(&suffix) || data_aside(suffix);
    !is_manifest
        && suffixes.next().is_some_and(is_first)
        && suffixes.all(|suffix| DATA.contains(&suffix) || is_aside(suffix))
}

/// Returns whether one suffix marks both a data file and a backup: `json-tmp`, `json~`.
fn data_aside(suffix: &str) -> bool {
    let end = suffix.find(['~', '-', '_']).unwrap_or(suffix.len());
    let (kind, rest) = suffix.split_at(end);
    !rest.is_empty() && DATA.contains(&kind) && (rest == "~" || is_aside(&rest[1..]))
}

/// Returns whether a suffix is the suffix of a temporary or backup file: `tmp`, `tmp-1f2e`, `1700000000`, a UUID.
fn is_aside(suffix: &str) -> bool {
    let is_mark = |mark: &&str| {
        suffix
            .strip_prefix(*mark)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with(['-', '_']) && is_number(rest))
    };
    ASIDE.iter().any(is_mark) || is_number(suffix)
}

/// Returns whether a text consists of digits, possibly hexadecimal with dashes, with at least one that is not a letter. No loader
/// uses such a suffix.
fn is_number(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_hexdigit() || matches!(byte, b'-' | b'_'))
        && text.bytes().any(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOT: &str = "/home/me/.pi/agent/npm/node_modules/@me/pi-todo";

    fn kept(path: &str, access: Access) -> bool {
        let names: Vec<&OsStr> = Path::new(path).iter().collect();
        is_own_data(&names, Path::new(ROOT), access)
    }

    #[test]
    fn data_under_the_own_name_is_the_packages() {
        for path in [
            "pi-todo.json",
            "todo.json",
            "pi-todo/config.json",
            "todo/logs/debug.jsonl",
            "pi-todo/config.json.tmp",
            "pi-todo/config.json.tmp-1f2e",
            "pi-todo/.config.json.41532.tmp",
            "pi-todo/config.json~",
            "pi-todo/debug.log.1",
            "pi-todo/todo.sqlite-wal",
        ] {
            assert!(kept(path, Access::Write), "{path}");
        }
        for folder in ["pi-todo", "todo", "pi-todo/logs"] {
            assert!(kept(folder, Access::Make) && !kept(folder, Access::Write), "{folder}");
        }
    }

    #[test]
    fn code_and_files_of_others_are_protected() {
        for path in [
            "",
            "index.ts",
            "pi-todo.ts",
            "todo.js",
            "todo.json.ts",
            "todo.json.mjs",
            "pi-todo/index.ts",
            "pi-todo/index.json.js",
            "pi-todo/package.json",
            "pi-todo/Package.JSON",
            "pi-todo/lib/package.json",
            "pi-todo/run",
            "pi-todo/run.sh",
            "pi-todo/.env",
            "pi-todo/add.node",
            "pi-todo/config.json.abc",
            "other/config.json",
            "other.json",
            "pi-todo2/config.json",
            "@me/pi-todo/config.json",
        ] {
            assert!(!kept(path, Access::Write), "{path}");
        }
        for path in ["other", "pi-todo/index.ts", "todo.ts", "pi-todo/package.json"] {
            assert!(!kept(path, Access::Make), "{path}");
        }
    }

    #[test]
    fn only_installed_packages_and_extensions_have_a_name() {
        let names = [OsStr::new("todo"), OsStr::new("config.json")];
        for root in ["/x/node_modules/todo", "/x/node_modules/@me/todo", "/home/me/.pi/agent/extensions/todo"] {
            assert!(is_own_data(&names, Path::new(root), Access::Write), "{root}");
        }
        for root in ["/projects/todo", "/todo", "/", "/x/node_modules/@me/sub/todo"] {
            assert!(!is_own_data(&names, Path::new(root), Access::Write), "{root}");
        }
    }
}
