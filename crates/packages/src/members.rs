//! Finds the packages that a package contains and imports by name: workspaces and `file:` dependencies.
//!
//! `npm install` at the root of a repository creates a link in `node_modules` for each folder under `workspaces`, and for each
//! dependency on a `file:` path. PiJS creates no links on disk: an install does not fetch such names, but fetches the
//! dependencies of the members, and a build resolves the names as if the links existed.

use crate::archive::Unpacked;
use crate::entries::walk;
use crate::manifest::Manifest;
use crate::registry::Bundled;
use crate::resolve::MemberInfo;
use crate::source::PackageName;
use globset::{GlobBuilder, GlobMatcher};
use pijs_protocol::globs;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;

/// Maximum number of members of one package.
const MAX_MEMBERS: usize = 500;
/// Maximum number of patterns under `workspaces`.
const MAX_PATTERNS: usize = 64;

/// Lists the members of a package: the name in imports, and the folder below the root, with `/` as separator.
///
/// `read` returns the bytes of a manifest by its folder below the root; `folders` lists the folders that have a manifest. Neither
/// is called if the root's manifest names no member.
pub fn members(
    manifest: &[u8],
    folders: &dyn Fn() -> Vec<String>,
    read: &dyn Fn(&str) -> Option<Vec<u8>>,
) -> BTreeMap<String, String> {
    let Some(manifest) = parse(manifest) else { return BTreeMap::new() };
    let mut found = BTreeMap::new();
    let mut waiting: Vec<(String, Value)> = Vec::new();
    for folder in workspaces(&manifest, folders) {
        let Some(member) = read(&folder).as_deref().and_then(parse) else { continue };
        let name = member.get("name").and_then(Value::as_str).map(str::to_owned);
        if let Some(name) = name.filter(|name| is_usable(name)) {
            found.entry(name).or_insert_with(|| folder.clone());
            waiting.push((folder, member));
        }
    }
    waiting.push((String::new(), manifest));
    while let Some((base, manifest)) = waiting.pop() {
        for (name, folder) in file_dependencies(&manifest, &base) {
            if found.len() >= MAX_MEMBERS || found.contains_key(&name) || !is_usable(&name) {
                continue;
            }
            let Some(member) = read(&folder).as_deref().and_then(parse) else { continue };
            found.insert(name, folder.clone());
            waiting.push((folder, member));
        }
    }
    found
}

/// Lists the folders below `root` that have a manifest, without folders of dependencies; empty if there are too many files.
pub fn manifest_folders(root: &Path) -> Vec<String> {
    let found = walk(root, &Bundled::default()).unwrap_or_default();
    let manifests = found.iter().filter(|path| path.ends_with("package.json"));
    let relative = manifests.filter_map(|path| path.parent()?.strip_prefix(root).ok()?.to_str());
    relative.map(|folder| folder.replace(std::path::MAIN_SEPARATOR, "/")).filter(|folder| !folder.is_empty()).collect()
}

/// Returns the members of an unpacked package with their dependencies.
pub(crate) fn members_of(files: &Unpacked) -> Vec<MemberInfo> {
    let manifest_of = |folder: &str| files.get(&format!("{folder}/package.json"));
    let is_shown = |folder: &str| !folder.split('/').any(|part| part == "node_modules" || part.starts_with('.'));
    let folders = || {
        let found = files.files().filter_map(|(path, _)| path.strip_suffix("/package.json"));
        found.filter(|folder| is_shown(folder)).map(str::to_owned).collect()
    };
    let manifest = files.get("package.json").unwrap_or_default();
    let found = members(manifest, &folders, &|folder| manifest_of(folder).map(<[u8]>::to_vec));
    member_infos(found, &|folder| manifest_of(folder).map(<[u8]>::to_vec))
}

/// Reads the dependencies of members from their manifests.
pub(crate) fn member_infos(
    members: BTreeMap<String, String>,
    read: &dyn Fn(&str) -> Option<Vec<u8>>,
) -> Vec<MemberInfo> {
    let info = |(name, folder): (String, String)| {
        let manifest = Manifest::parse(&folder, &read(&folder)?).ok()?;
        let version = manifest.version.clone().filter(|version| !version.is_empty());
        let info = manifest.as_version(&name, version.as_deref().unwrap_or("0.0.0"));
        Some(MemberInfo { name: PackageName::parse(&name).ok()?, folder, info })
    };
    members.into_iter().filter_map(info).collect()
}

fn parse(manifest: &[u8]) -> Option<Value> {
    serde_json::from_slice(manifest.strip_prefix(b"\xef\xbb\xbf").unwrap_or(manifest)).ok()
}

/// Returns whether a name can belong to a member. Names of the host's packages cannot.
fn is_usable(name: &str) -> bool {
    PackageName::parse(name).is_ok_and(|name| !name.is_host_supplied())
}

/// Returns the folders that `workspaces` matches: a list of patterns, or an object with such a list under `packages`.
fn workspaces(manifest: &Value, folders: &dyn Fn() -> Vec<String>) -> Vec<String> {
    let listed = manifest.get("workspaces").map(|listed| listed.get("packages").unwrap_or(listed));
    let patterns: Vec<&str> =
        listed.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect();
    if patterns.is_empty() || patterns.len() > MAX_PATTERNS {
        return Vec::new();
    }
    let (without, with): (Vec<&str>, Vec<&str>) = patterns.into_iter().partition(|pattern| pattern.starts_with('!'));
    let with: Vec<GlobMatcher> = with.into_iter().filter_map(glob).collect();
    let without: Vec<GlobMatcher> = without.into_iter().filter_map(|pattern| glob(&pattern[1..])).collect();
    let is_member = |folder: &String| {
        with.iter().any(|glob| glob.is_match(folder)) && !without.iter().any(|glob| glob.is_match(folder))
    };
    folders().into_iter().filter(is_member).take(MAX_MEMBERS).collect()
}

fn glob(pattern: &str) -> Option<GlobMatcher> {
    let pattern = pattern.trim_start_matches("./").trim_end_matches('/');
    let fits = pattern.len() <= 512 && globs::fits(pattern);
    let glob = fits.then(|| GlobBuilder::new(pattern).literal_separator(true).build().ok())??;
    Some(glob.compile_matcher())
}

/// Lists dependencies on folders inside the package: the name, and the folder below the root.
fn file_dependencies(manifest: &Value, base: &str) -> Vec<(String, String)> {
    let lists = ["dependencies", "optionalDependencies"].into_iter().filter_map(|key| manifest.get(key)?.as_object());
    let named = lists.flatten().filter_map(|(name, spec)| Some((name, folder_of(spec.as_str()?)?)));
    named.filter_map(|(name, path)| Some((name.clone(), inside(base, path)?))).collect()
}

/// Returns the path of a dependency that is a folder.
pub(crate) fn folder_of(spec: &str) -> Option<&str> {
    let spec = spec.trim();
    let path = spec.strip_prefix("file:").or_else(|| spec.strip_prefix("link:"));
    path.or_else(|| (spec.starts_with("./") || spec.starts_with("../")).then_some(spec))
}

/// Resolves a path relative to `base`, below the root; returns `None` if it leaves the root or is the root itself.
fn inside(base: &str, path: &str) -> Option<String> {
    if path.starts_with('/') || path.contains(['\\', '\0', ':']) {
        return None;
    }
    let mut parts: Vec<&str> = base.split('/').filter(|part| !part.is_empty()).collect();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => _ = parts.pop()?,
            part => parts.push(part),
        }
    }
    let is_installed = parts.contains(&"node_modules");
    (!parts.is_empty() && !is_installed).then(|| parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(manifest: &str, files: &[(&str, &str)]) -> Vec<String> {
        let folders = || files.iter().map(|(folder, _)| (*folder).to_owned()).collect();
        let read =
            |folder: &str| files.iter().find(|(known, _)| *known == folder).map(|(_, text)| text.as_bytes().to_vec());
        members(manifest.as_bytes(), &folders, &read).into_iter().map(|(name, at)| format!("{name} {at}")).collect()
    }

    #[test]
    fn workspaces_are_members_by_their_names() {
        let files = [
            ("packages/a", r#"{"name": "@m/a"}"#),
            ("packages/b", r#"{"name": "b"}"#),
            ("packages/deep/c", r#"{"name": "c"}"#),
            ("packages/nameless", "{}"),
            ("packages/odd", r#"{"name": "../x"}"#),
            ("packages/host", r#"{"name": "typebox"}"#),
            ("tools/d", r#"{"name": "d"}"#),
        ];
        assert_eq!(found(r#"{"workspaces": ["packages/*"]}"#, &files), ["@m/a packages/a", "b packages/b"]);
        assert_eq!(found(r#"{"workspaces": {"packages": ["./tools/d/"]}}"#, &files), ["d tools/d"]);
        assert_eq!(
            found(r#"{"workspaces": ["packages/**", "!packages/a"]}"#, &files),
            ["b packages/b", "c packages/deep/c"]
        );
        for manifest in ["", "[]", r#"{"workspaces": 7}"#, r#"{"workspaces": null}"#, r#"{"workspaces": ["{"]}"#] {
            assert!(found(manifest, &files).is_empty(), "{manifest}");
        }
    }

    #[test]
    fn folders_that_are_dependencies_are_members_if_they_lie_inside() {
        let files = [
            ("shared", r#"{"dependencies": {"inner": "file:../inner"}}"#),
            ("inner", r#"{"dependencies": {"shared": "file:../shared", "out": "file:../../out"}}"#),
        ];
        let manifest = r#"{"dependencies": {"shared": "file:./shared", "up": "file:..", "root": "file:.", "gone": "./gone", "x": "^1"}}"#;
        assert_eq!(found(manifest, &files), ["inner inner", "shared shared"]);
    }
}
