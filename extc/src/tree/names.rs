//! Names of the files of a build.
//!
//! Every file has a unique name, whatever manifests claim: modules, diagnostics and `artifact.json` identify files by it.
//!
//! ```text
//! src/a.ts                                    →  src/a.ts
//! node_modules/b/index.js, in the package     →  node_modules/b/index.js
//! ../b/lib/index.js, b of version 1.2.3       →  dep:b@1.2.3/lib/index.js
//! ../b/node_modules/c/index.js                →  dep:b@1.2.3/node_modules/c/index.js
//! ../../node_modules/b/lib/index.js           →  dep:../../node_modules/b/lib/index.js, if a nearer `b` exists
//! dep:b@1.2.3/x.ts, in the package            →  ./dep:b@1.2.3/x.ts
//! ../lib/x.ts, of a loose file                →  ../lib/x.ts
//! ```

use super::{Root, SourceTree};
use crate::access::Area;
use crate::package::without_mark;
use crate::probe::PathKind;
use pijs_protocol::guard;
use std::path::Path;

/// The name of a file in a build.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Located {
    /// `src/a.ts`, or `dep:NAME@VERSION/PATH`; unique to this file.
    pub(crate) name: String,
    /// Whether the file belongs to a dependency.
    pub(crate) dependency: bool,
}

/// The name and version that a dependency's manifest claims.
#[derive(Debug, Clone)]
pub(super) struct DependencyIdentity {
    name: Option<String>,
    version: String,
}

/// Maximum length of a version in file names; a longer version counts as missing. Every file name of a dependency has it.
const LONGEST_VERSION: usize = 64;

impl SourceTree {
    /// Returns the name of a canonical path; `None` if it is outside of the roots.
    pub(crate) fn locate(&self, path: &Path) -> Option<Located> {
        let (root, relative) = self.root_of(path)?;
        let is_installed = || relative.components().any(|part| part.as_os_str() == "node_modules");
        Some(match root.area {
            Area::Package => Located {
                dependency: is_installed(),
                name: match portable(relative) {
                    name if is_taken(&name) => format!("./{name}"),
                    name => name,
                },
            },
            Area::Dependencies => Located { dependency: true, name: self.dependency_name(root, relative) },
            Area::Elsewhere => {
                Located { dependency: is_installed(), name: self.place_beside(path).unwrap_or_else(|| portable(path)) }
            }
        })
    }

    /// Returns the path of a file relative to the package if its name does not contain it; `../NAME/lib/index.js` for a
    /// dependency outside the package. It is separate from the name, which does not depend on where the dependency is installed.
    pub(crate) fn place(&self, path: &Path) -> Option<String> {
        let (root, relative) = self.root_of(path)?;
        match root.area {
            Area::Package => Some(portable(relative)).filter(|name| is_taken(name)),
            Area::Dependencies => self.place_beside(path),
            Area::Elsewhere => None,
        }
    }

    fn place_beside(&self, path: &Path) -> Option<String> {
        let shared = self.package().ancestors().find(|folder| path.starts_with(folder))?;
        let up = self.package().strip_prefix(shared).expect("an ancestor is a prefix").components().count();
        let down = path.strip_prefix(shared).expect("the path starts with the shared prefix");
        Some(format!("{}{}", "../".repeat(up), portable(down)))
    }

    /// Returns the name of a file, or its path if it is outside.
    pub(crate) fn name_of(&self, path: &Path) -> String {
        self.locate(path).map_or_else(|| path.display().to_string(), |located| located.name)
    }

    /// Returns `dep:NAME@VERSION/PATH`, where NAME is the folder of the dependency: its manifest could claim the name and version
    /// of another, and two files would share a name. If that is ambiguous, returns `dep:` and the relative path.
    fn dependency_name(&self, root: &Root, relative: &Path) -> String {
        let plain = || {
            let (folder, inside) = dependency_folder(relative)?;
            let DependencyIdentity { name, version } = self.claims(root, folder);
            if !guard!(BuildDependencyNames) {
                return Some(format!("dep:{}@{version}/{}", name?, portable(inside)));
            }
            let shadowed = self.nearer(root).any(|nearer| self.probe(&nearer.path.join(folder)) != PathKind::Nothing);
            (!shadowed).then(|| format!("dep:{}@{version}/{}", portable(folder), portable(inside)))
        };
        plain().unwrap_or_else(|| {
            let path = root.path.join(relative);
            format!("dep:{}", self.place_beside(&path).unwrap_or_else(|| portable(&path)))
        })
    }

    /// Iterates folders of dependencies that are nearer to the package than `root`.
    fn nearer<'a>(&'a self, root: &'a Root) -> impl Iterator<Item = &'a Root> {
        let dependencies = self.roots.iter().filter(|other| other.area == Area::Dependencies);
        dependencies.take_while(move |other| other.path != root.path)
    }

    fn claims(&self, root: &Root, folder: &Path) -> DependencyIdentity {
        let key = root.path.join(folder);
        if let Some(known) = self.log().packages.get(&key) {
            return known.clone();
        }
        let manifest: Option<serde_json::Value> = self
            .manifest(&key.join("package.json"))
            .and_then(|bytes| serde_json::from_slice(without_mark(&bytes)).ok());
        let field = |name: &str| manifest.as_ref()?.get(name)?.as_str();
        let is_version = |text: &&str| {
            (1..=LONGEST_VERSION).contains(&text.len())
                && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".+-".contains(&byte))
        };
        let claims = DependencyIdentity {
            name: field("name").map(str::to_owned),
            version: field("version").filter(is_version).unwrap_or("0.0.0").to_owned(),
        };
        self.log().packages.insert(key, claims.clone());
        claims
    }
}

/// Returns whether the name of a file in the package has the form of a foreign name.
fn is_taken(name: &str) -> bool {
    name.starts_with("dep:") && guard!(BuildDependencyNames)
}

/// Splits a path into the folder of a dependency, `NAME` or `@SCOPE/NAME`, and the remainder. `None` for a file outside of a
/// dependency, for the hidden folders of package managers, and for names that would read as another name and version.
fn dependency_folder(relative: &Path) -> Option<(&Path, &Path)> {
    let mut parts = relative.components().map(|part| part.as_os_str().to_str());
    let first = parts.next()??;
    let depth = if first.starts_with('@') { 2 } else { 1 };
    let folder = relative.ancestors().nth(relative.components().count().checked_sub(depth)?)?;
    let inside = relative.strip_prefix(folder).expect("an ancestor is a prefix");
    let is_plain =
        |name: &str| !name.starts_with('.') && !name.contains(['@', ':']) && !name.contains(char::is_control);
    let plain = match depth {
        1 => is_plain(first),
        _ => is_plain(first.strip_prefix('@')?) && parts.next()?.is_some_and(is_plain),
    };
    (plain && !inside.as_os_str().is_empty()).then_some((folder, inside))
}

/// Joins the parts with `/`, on every system.
fn portable(path: &Path) -> String {
    let parts: Vec<_> = path.components().map(|part| part.as_os_str().to_string_lossy()).collect();
    parts.join("/")
}
