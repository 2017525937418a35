//! Writes the files of a scenario before it runs, and lists the changed ones afterwards.

use super::scenario::Fill;
use pijs_protocol::guard;
use pijs_runtime::clean;
use pijs_runtime::{Result, UserError};
use regex::Regex;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::path::{Component, Path};
use std::sync::LazyLock;

/// Files that pi itself and npm keep in a home, and locks.
static NOT_SHOWN_IN_HOME: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(concat!(
        r"^\.pi/agent/(auth\.json|models[^\n]*\.json|settings\.json|trust[^\n]*|sessions|bin|cache|pijs|logs)(/|$)",
        r"|^\.(cache|npm|config/node)(/|$)|\.lock(/|$)",
    ))
    .expect("a constant pattern")
});

/// Writes files below a folder.
pub(super) fn put(base: &Path, files: &BTreeMap<String, String>, fill: &Fill, is_program: bool) -> Result<()> {
    for (name, text) in files {
        let path = base.join(name);
        // Scenarios are untrusted input; their files stay in the folders made for them.
        let is_below =
            Path::new(name).components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
        if !is_below && guard!(DriveInside) {
            return Err(UserError::failed(format!(
                "{}: a file of a scenario has a name below its folder",
                clean(name)
            )));
        }
        let failed = |error: std::io::Error| UserError::failed(format!("{}: {error}", path.display()));
        std::fs::create_dir_all(path.parent().unwrap_or(base)).map_err(failed)?;
        std::fs::write(&path, fill.text(text)).map_err(failed)?;
        #[cfg(unix)]
        if is_program {
            use std::os::unix::fs::PermissionsExt;
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).map_err(failed)?;
        }
    }
    Ok(())
}

/// Content of the files below project and home, by displayed name.
pub(super) type Listing = BTreeMap<String, Vec<u8>>;

/// Lists every file that is compared.
pub(super) fn list(cwd: &Path, home: &Path) -> Listing {
    let mut found = Listing::new();
    walk(cwd, "", "<cwd>", &|name| name == ".git" || name.ends_with("/.git"), &mut found);
    walk(home, "", "<home>", &|name| NOT_SHOWN_IN_HOME.is_match(name), &mut found);
    found
}

fn walk(folder: &Path, below: &str, label: &str, is_left_out: &dyn Fn(&str) -> bool, found: &mut Listing) {
    // A file may disappear during the listing.
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let name = if below.is_empty() { name } else { format!("{below}/{name}") };
        let Ok(kind) = entry.file_type() else { continue };
        if is_left_out(&name) {
            continue;
        }
        let path = entry.path();
        let content = if kind.is_dir() {
            walk(&path, &name, label, is_left_out, found);
            continue;
        } else if kind.is_file() {
            std::fs::read(&path)
        } else if kind.is_symlink() {
            std::fs::read_link(&path).map(|target| format!("-> {}", target.display()).into_bytes())
        } else {
            continue;
        };
        if let Ok(content) = content {
            found.insert(format!("{label}/{name}"), content);
        }
    }
}

/// Returns the files that were created, changed (as text, or as size if binary or longer than `longest`) or deleted (as null).
pub(super) fn changes(before: &Listing, after: &Listing, longest: usize) -> Value {
    let mut changed = Map::new();
    for (name, content) in after.iter().filter(|(name, content)| before.get(*name) != Some(*content)) {
        let is_shown = !content.contains(&0) && content.len() <= longest;
        let shown = if is_shown { json!(String::from_utf8_lossy(content)) } else { json!({"bytes": content.len()}) };
        changed.insert(name.clone(), shown);
    }
    for name in before.keys().filter(|name| !after.contains_key(*name)) {
        changed.insert(name.clone(), Value::Null);
    }
    Value::Object(changed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn created_changed_and_deleted_files_are_told_apart() {
        let listing = |files: &[(&str, &[u8])]| -> Listing {
            files.iter().map(|(name, content)| ((*name).to_owned(), content.to_vec())).collect()
        };
        let before = listing(&[("<cwd>/same", b"s"), ("<cwd>/gone", b"g"), ("<cwd>/new text", b"a")]);
        let after = listing(&[
            ("<cwd>/same", b"s"),
            ("<cwd>/new text", b"b"),
            ("<cwd>/binary", b"\0"),
            ("<cwd>/long", b"12345"),
        ]);
        let expected = json!({
            "<cwd>/binary": {"bytes": 1}, "<cwd>/long": {"bytes": 5}, "<cwd>/new text": "b", "<cwd>/gone": null,
        });
        assert_eq!(changes(&before, &after, 4), expected);
    }

    #[test]
    fn pis_own_files_are_not_listed() {
        for name in [".pi/agent/auth.json", ".pi/agent/sessions/x.jsonl", ".cache/a", ".npm", "x.lock", "a/b.lock/c"] {
            assert!(NOT_SHOWN_IN_HOME.is_match(name), "{name}");
        }
        for name in [".pi/agent/presets.json", "notes.txt", ".config/x.json", "locks"] {
            assert!(!NOT_SHOWN_IN_HOME.is_match(name), "{name}");
        }
    }
}
