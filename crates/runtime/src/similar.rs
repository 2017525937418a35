//! Suggests the path that a misspelt one probably means.

use std::path::Path;

/// Returns `did you mean PATH? ` for the path beside `path` whose name is most similar; empty if there is none. A relative path is
/// one of `folder`.
pub fn meant_path(folder: &Path, path: &Path) -> String {
    let parent = path.parent().unwrap_or(Path::new(""));
    let beside = std::fs::read_dir(folder.join(parent)).into_iter().flatten().flatten();
    let names: Vec<String> = beside.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    match pijs_terminal::similar(&name, names.iter().map(String::as_str)) {
        Some(near) => format!("did you mean {}? ", parent.join(near).display()),
        None => String::new(),
    }
}
