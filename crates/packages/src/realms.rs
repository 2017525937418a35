//! Assigns the entries of a package to realms, and names each realm.
//!
//! JavaScript entries share one realm, as in pi. Each WebAssembly component has its own realm. If the package has other entries,
//! the realm's id consists of the package's id and the component's path, `npm:NAME#judge.wasm`; grants, lists and records use
//! this id.

use crate::entries::is_component_file;
use pijs_protocol::ExtensionId;
use std::path::{Path, PathBuf};

/// Returns the entries of each realm in load order; the first realm has the package's own id.
pub fn realms(id: &ExtensionId, root: &Path, entries: &[PathBuf]) -> Vec<(ExtensionId, Vec<PathBuf>)> {
    let (mut components, others): (Vec<PathBuf>, Vec<PathBuf>) =
        entries.iter().cloned().partition(|entry| is_component_file(entry));
    let first = match (others.is_empty(), components.is_empty()) {
        (true, true) => return Vec::new(),
        (true, false) => vec![components.remove(0)],
        (false, _) => others,
    };
    let of_component = |entry: PathBuf| {
        let name = entry.strip_prefix(root).unwrap_or(&entry).components();
        let name: Vec<_> = name.map(|part| part.as_os_str().to_string_lossy().into_owned()).collect();
        (ExtensionId::new(format!("{id}#{}", name.join("/"))), vec![entry])
    };
    std::iter::once((id.clone(), first)).chain(components.into_iter().map(of_component)).collect()
}

/// Returns the package of a component that has a realm in addition to other realms of its package; `None` for a package and for a
/// single file.
pub fn package_of_realm(id: &str) -> Option<&str> {
    let (package, component) = id.split_once('#')?;
    let is_file = id.strip_prefix("path:").is_some_and(|path| Path::new(path).exists());
    (component.ends_with(".wasm") && !is_file).then_some(package)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn components_next_to_other_entries_have_their_own_ids() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = |name: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, "").expect("written");
            path
        };
        let id = ExtensionId::new("npm:x");
        let (js, a, b) = (file("index.js"), file("a.wasm"), file("b.wasm"));
        let named = |entries: &[PathBuf]| -> Vec<(String, usize)> {
            let realms = realms(&id, folder.path(), entries).into_iter();
            realms.map(|(id, entries)| (id.to_string(), entries.len())).collect()
        };
        assert_eq!(
            named(&[a.clone(), js, b.clone()]),
            [("npm:x".into(), 1), ("npm:x#a.wasm".into(), 1), ("npm:x#b.wasm".into(), 1)]
        );
        assert_eq!(named(&[a, b]), [("npm:x".into(), 1), ("npm:x#b.wasm".into(), 1)]);
        assert_eq!(named(&[]), []);
        assert_eq!(package_of_realm("npm:x#b.wasm"), Some("npm:x"));
        assert_eq!((package_of_realm("npm:x"), package_of_realm("npm:x#y")), (None, None));
    }
}
