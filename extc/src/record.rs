//! How a cache hit is found without linking: a note of which files went in.
//!
//! Under the key of a request (folder, entries, settings) the cache keeps the paths of its inputs and
//! the folders they were found in. A lookup hashes those files and lists those folders; what comes
//! out is the key of the artifact and the id its MAC is bound to. So a note is only a hint: a forged
//! one leads to a key under which no authentic artifact lies.

use crate::build::{BuildOptions, BuildOutput};
use crate::cache::{Cache, Key};
use crate::diagnostics::Diagnostic;
use crate::link::Modules;
use crate::resolve::Package;
use crate::tree::SourceTree;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

/// Most entries of a folder that are listed; larger ones count as changed.
const MAX_LISTED: usize = 10_000;

/// Where the inputs of an artifact were.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Record {
    files: BTreeSet<PathBuf>,
    /// A file that appears beside an input may be what an import means from then on.
    folders: BTreeSet<PathBuf>,
}

impl Record {
    pub(crate) fn new(modules: &Modules) -> Self {
        let tree = modules.tree();
        let files: BTreeSet<PathBuf> = tree.inputs().into_values().map(|file| file.path).collect();
        let mut folders: BTreeSet<PathBuf> = files
            .iter()
            .filter(|path| tree.locate(path).is_some_and(|located| !located.dependency))
            .filter_map(|path| path.parent().map(Path::to_owned))
            .collect();
        // Installing a package there changes what a bare import means.
        folders.insert(tree.package().join("node_modules"));
        Self { files, folders }
    }

    /// Stores an artifact and the note that leads to it.
    pub(crate) fn store(
        &self,
        cache: &Cache,
        request: &Key,
        package: &Package,
        tree: &SourceTree,
        options: &BuildOptions,
        bytes: &[u8],
    ) -> io::Result<()> {
        let Some(key) = self.key(package, tree, options) else {
            return Err(io::Error::other("the package changed while it was compiled"));
        };
        cache.store(&key, &id(&key), bytes)?;
        cache.store_note(request, self)
    }

    /// The key of these inputs as they are now; `None` if one of them is gone.
    fn key(&self, package: &Package, tree: &SourceTree, options: &BuildOptions) -> Option<Key> {
        let mut key = Key::builder("extension inputs");
        settings(&mut key, package, options);
        for path in &self.files {
            tree.read(path).ok()?;
        }
        for (name, file) in tree.inputs() {
            key.field(name.as_bytes());
            key.field(&file.sha256);
            // The code of a dependency that asks where it lies says it.
            key.field(tree.place(&file.path).unwrap_or_default().as_bytes());
        }
        for folder in &self.folders {
            key.field(tree.locate(folder)?.name.as_bytes());
            for name in list(folder)? {
                key.field(name.as_bytes());
            }
            key.field(b"");
        }
        Some(key.finish())
    }
}

/// The key of a request: everything that is known before a file is read.
pub(crate) fn request(package: &Package, options: &BuildOptions) -> Key {
    let mut key = Key::builder("extension request");
    key.field(package.root.to_string_lossy().as_bytes());
    settings(&mut key, package, options);
    key.finish()
}

/// An authentic artifact of the same inputs, if the cache has one.
pub(crate) fn lookup(
    cache: &Cache,
    request: &Key,
    package: &Package,
    tree: &SourceTree,
    options: &BuildOptions,
) -> Option<BuildOutput> {
    let record: Record = cache.load_note(request)?;
    let key = record.key(package, tree, options)?;
    let hit = cache.load(&key, &id(&key))?;
    let findings = &hit.artifact.artifact().metadata.findings;
    let diagnostics = findings.iter().filter_map(Diagnostic::from_finding).collect();
    Some(BuildOutput {
        artifact: hit.artifact,
        bytes: hit.bytes,
        diagnostics,
        cached: true,
        root: package.root.clone(),
    })
}

fn settings(key: &mut crate::cache::KeyBuilder, package: &Package, options: &BuildOptions) {
    key.field(&package.manifest);
    key.field(package.name.as_bytes());
    key.field(package.version.as_bytes());
    key.field(options.host.fingerprint());
    key.field(&[u8::from(options.minify)]);
    for entry in &package.entries {
        let relative = entry.strip_prefix(&package.root).unwrap_or(entry);
        key.field(relative.to_string_lossy().as_bytes());
    }
}

/// What the MAC of an artifact is bound to.
fn id(key: &Key) -> String {
    format!("extension:{key}")
}

/// Names in a folder, in order; none for a folder that is not there.
fn list(folder: &Path) -> Option<BTreeSet<String>> {
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Some(BTreeSet::new()),
        Err(_) => return None,
    };
    let mut names = BTreeSet::new();
    for entry in entries {
        names.insert(entry.ok()?.file_name().to_string_lossy().into_owned());
        if names.len() > MAX_LISTED {
            return None;
        }
    }
    Some(names)
}
