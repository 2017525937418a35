//! The dependency manifest of an artifact: everything that decided its contents, so that a cache hit is found without linking.
//!
//! Under the key of a request (folders, entries, settings) the cache stores the compiled files, the manifests that the resolver
//! read, and its other probes, each with the answer: a digest, nothing, a link and its target. A lookup repeats all of them. If
//! every answer is the same, each import resolves as before, and the artifact equals that of a new build.
//!
//! Files and folders that a [stamp](crate::stamps) shows to be unchanged are not read for a lookup.
//!
//! A lookup reads files through the tree, so a file that may no longer be read, under another policy or because another file is
//! protected, prevents a hit. It also probes refused files: each refusal is evidence, and if such a file may be read now, the
//! import resolves differently.
//!
//! The whole note and the request are the key of the artifact, and the id that its MAC is bound to. So a note is only a hint: a
//! forged one leads to a key without an authentic artifact. No package can use another's artifact, since the request contains
//! its location.

use crate::cache::{Cache, Key, KeyBuilder};
use crate::limits::Limits;
use crate::options::BuildOptions;
use crate::output::BuildOutput;
use crate::package::{LockEntry, Package};
use crate::probe::PathKind;
use crate::stamps::{StampCheck, Stamps, Unsure};
use crate::tree::{FileEvidence, SourceTree};
use pijs_artifact::Artifact;
use pijs_diagnostics::Diagnostic;
use pijs_protocol::guard;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

/// Maximum number of recorded answers: ten for each file that a build may read. Only hostile code exceeds it.
const MAX_ANSWERS: usize = 200_000;

/// The inputs of an artifact, with a digest or a probe's answer for each.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct DependencyManifest {
    /// Digest of the package's own manifest: a build in a child process finds it by itself.
    manifest: Digest,
    entries: Vec<PathBuf>,
    /// Compiled files.
    pub(crate) files: BTreeMap<PathBuf, Digest>,
    /// Other manifests that were looked up; `None` where none exists.
    manifests: BTreeMap<PathBuf, Option<Digest>>,
    /// Answers of path probes, by folder and name: most probes try several names in one folder.
    probed: BTreeMap<PathBuf, BTreeMap<String, PathKind>>,
    /// Files that imports resolved to and that the build refused to read.
    refused: BTreeSet<PathBuf>,
    /// Sorted names in listed folders; `true` for a folder.
    listed: BTreeMap<PathBuf, Vec<(String, bool)>>,
}

/// A SHA-256 digest in hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Digest(String);

impl Digest {
    fn of(bytes: [u8; 32]) -> Self {
        Self(hex::encode(bytes))
    }
}

impl DependencyManifest {
    /// Records the reads and probes of a build.
    pub(crate) fn new(package: &Package, tree: &SourceTree) -> Self {
        let files: BTreeMap<_, _> =
            tree.inputs().into_values().map(|file| (file.path, Digest::of(file.sha256))).collect();
        let mut manifests: BTreeMap<_, _> =
            tree.manifests().into_iter().map(|(path, digest)| (path, digest.map(Digest::of))).collect();
        // A manifest that was read and then compiled, as most are, is read once.
        manifests.retain(|path, digest| digest.is_none() || files.get(path) != digest.as_ref());
        let mut probed: BTreeMap<PathBuf, BTreeMap<String, PathKind>> = BTreeMap::new();
        for (path, found) in tree.probed() {
            let (folder, name) = match (path.parent(), path.components().next_back()) {
                (Some(folder), Some(name)) => (folder, name.as_os_str().to_str()),
                // The root of a drive.
                _ => (path.as_path(), Some("")),
            };
            let name = name.expect("inspected names are UTF-8");
            probed.entry(folder.to_owned()).or_default().insert(name.to_owned(), found);
        }
        let refused = tree.evidence().into_iter().filter(|(_, evidence)| *evidence == FileEvidence::Refused);
        let refused = refused.map(|(path, _)| path).collect();
        let (manifest, entries, listed) = (manifest_of(package), package.entries.clone(), tree.lists());
        Self { manifest, entries, files, manifests, probed, listed, refused }
    }

    /// Returns the paths that decide which code runs: compiled files, links on the way to them, and locations where a file would
    /// have taken precedence for an import.
    pub(crate) fn places(&self) -> Vec<PathBuf> {
        let decides = |found: &PathKind| matches!(found, PathKind::Nothing | PathKind::Link(_));
        let probed = self.probed.iter().flat_map(|(folder, names)| names.iter().map(move |it| (folder, it)));
        let probed = probed.filter(|(_, (_, found))| decides(found)).map(|(folder, (name, _))| folder.join(name));
        self.files.keys().cloned().chain(probed).collect()
    }

    /// Stores an artifact, the note that leads to it, and the stamps of what it was made of.
    ///
    /// # Errors
    ///
    /// Also fails if the package has changed since it was compiled: a later lookup could not tell the two versions apart.
    pub(crate) fn store(
        &self,
        cache: &Cache,
        (package, lock): (&Package, Option<&LockEntry>),
        tree: &SourceTree,
        options: &BuildOptions,
        (artifact, digest): (&Artifact, &str),
    ) -> io::Result<()> {
        let listed = self.listed.values().map(|names| names.len() + 1).sum::<usize>();
        let probed = self.probed.values().map(BTreeMap::len).sum::<usize>();
        let answers = self.files.len() + self.manifests.len() + probed + listed;
        if answers > MAX_ANSWERS {
            return Err(io::Error::other(format!("its imports were searched at {answers} paths")));
        }
        let known = Stamps::default();
        let unsure = self.unsure(tree, &StampCheck::new(&known, tree, None));
        let stamps = self.stamp_anew(cache, (package, lock), tree, &known, &unsure);
        if !self.holds(package, tree, &unsure) {
            return Err(io::Error::other("the package changed while it was compiled"));
        }
        let (request, key) = (request(package, tree, options), self.key(package, tree, options));
        cache.store_apart(&key, &id(&key), artifact, digest)?;
        let note = cache.store_note(&request, self)?;
        // Without stamps, every start reads all inputs.
        stamps.map_or(Ok(()), |stamps| cache.store_stamps(&request, &stamps.of(digest_of(&note), key.hex())))
    }

    /// Returns the inputs that no stamp shows to be unchanged. Each file is judged again, since a stamp grants no permission to
    /// read.
    fn unsure(&self, tree: &SourceTree, check: &StampCheck<'_>) -> Unsure {
        let manifests = self.manifests.iter().filter(|(_, digest)| digest.is_some()).map(|(path, _)| path);
        let is_unsure = |path: &&PathBuf| !(check.is_same_file(path) && tree.admits(path));
        let files = self.files.keys().chain(manifests).filter(is_unsure).cloned().collect();
        let absent = self.absent_manifests().filter_map(|path| path.parent());
        let folders = self.probed.keys().chain(self.listed.keys()).map(PathBuf::as_path).chain(absent);
        let folders = folders.filter(|folder| !check.has_same_names(folder)).map(Path::to_owned);
        Unsure { files, folders: folders.collect(), opaque: BTreeSet::new() }
    }

    /// Iterates manifests that the resolver probed and that were absent.
    fn absent_manifests(&self) -> impl Iterator<Item = &PathBuf> {
        self.manifests.iter().filter(|(_, digest)| digest.is_none()).map(|(path, _)| path)
    }

    /// Stamps unverified inputs before they are read, so that a later change has another stamp. Returns `None` if nothing is
    /// stamped.
    fn stamp_anew(
        &self,
        cache: &Cache,
        (package, lock): (&Package, Option<&LockEntry>),
        tree: &SourceTree,
        known: &Stamps,
        unsure: &Unsure,
    ) -> Option<Stamps> {
        // Manifests of workspace members decide where their names lead, and are not stamped.
        if has_members(&package.manifest) {
            return None;
        }
        let moment = cache.moment()?;
        // The manifest was refused or is not a file, so another may later exist under the same name.
        let there = self.absent_manifests().filter(|path| tree.probe_uncached(path) != PathKind::Nothing);
        let opaque = there.filter_map(|path| path.parent().map(Path::to_owned)).collect();
        let unsure = Unsure { opaque, files: unsure.files.clone(), folders: unsure.folders.clone() };
        let is_locked = |lock: &LockEntry| pijs_packages::is_locked(&lock.file, &lock.identity, &self.manifest.0);
        Some(Stamps::renewed(known, &unsure, tree, (lock, is_locked), moment))
    }

    /// Returns whether the unverified inputs are unchanged. Path probes cost least and come first.
    fn holds(&self, package: &Package, tree: &SourceTree, unsure: &Unsure) -> bool {
        let digest = |path: &Path| tree.digest(path).map(Digest::of);
        let resolves_alike = || {
            let is_unsure = |folder: &Path| unsure.folders.contains(folder);
            let mut probed = self.probed.iter().filter(|(folder, _)| is_unsure(folder));
            let mut manifests = self.manifests.iter().filter(|(path, known)| match known {
                Some(_) => unsure.files.contains(*path),
                None => path.parent().is_none_or(is_unsure),
            });
            probed.all(|(folder, names)| {
                names.iter().all(|(name, found)| tree.probe_uncached(&folder.join(name)) == *found)
            }) && self.listed.iter().all(|(folder, known)| !is_unsure(folder) || tree.listed_now(folder) == *known)
                && manifests.all(|(path, known)| digest(path) == *known)
        };
        let mut files = self.files.iter().filter(|(path, _)| unsure.files.contains(*path));
        self.entries == package.entries
            && self.manifest == manifest_of(package)
            && (!guard!(BuildLookups) || resolves_alike())
            && files.all(|(path, known)| digest(path).as_ref() == Some(known))
            && (!guard!(BuildRefusals) || self.refused.iter().all(|path| tree.is_refused(path)))
    }

    /// Returns the key of the artifact for these inputs.
    fn key(&self, package: &Package, tree: &SourceTree, options: &BuildOptions) -> Key {
        let mut key = Key::builder("extension inputs");
        settings(&mut key, package, tree, options);
        // Each list is preceded by its length, so that no item moves from one to the next.
        let count = |key: &mut KeyBuilder, length: usize| {
            key.field(&(length as u64).to_le_bytes());
        };
        count(&mut key, self.files.len());
        for (path, digest) in &self.files {
            key.field(bytes_of(path)).field(digest.0.as_bytes());
        }
        count(&mut key, self.manifests.len());
        for (path, digest) in &self.manifests {
            key.field(bytes_of(path)).field(digest.as_ref().map_or("", |digest| digest.0.as_str()).as_bytes());
        }
        count(&mut key, self.probed.len());
        for (folder, names) in &self.probed {
            key.field(bytes_of(folder));
            count(&mut key, names.len());
            for (name, found) in names {
                key.field(name.as_bytes()).field(&found.to_field());
            }
        }
        count(&mut key, self.listed.len());
        for (folder, names) in &self.listed {
            key.field(bytes_of(folder));
            count(&mut key, names.len());
            for (name, is_folder) in names {
                key.field(name.as_bytes()).field(&[u8::from(*is_folder)]);
            }
        }
        count(&mut key, self.refused.len());
        for path in &self.refused {
            key.field(bytes_of(path));
        }
        key.finish()
    }
}

/// Returns an authentic artifact of the same inputs, if the cache has one. Reads only inputs that no stamp shows to be unchanged.
pub(crate) fn lookup(
    cache: &Cache,
    (package, lock): (&Package, Option<&LockEntry>),
    tree: &SourceTree,
    options: &BuildOptions,
) -> Option<BuildOutput> {
    let request = request(package, tree, options);
    let note = cache.load_note(&request)?;
    let record: DependencyManifest = serde_json::from_slice(&note).ok()?;
    let of_record = |stamps: &Stamps| stamps.record == digest_of(&note);
    let known = cache.load_stamps(&request).filter(of_record).unwrap_or_default();
    let check = StampCheck::new(&known, tree, lock);
    let unsure = record.unsure(tree, &check);
    let is_known = unsure.is_empty() && !check.has_other_lock();
    let anew = if is_known { None } else { record.stamp_anew(cache, (package, lock), tree, &known, &unsure) };
    if !record.holds(package, tree, &unsure) {
        return None;
    }
    let key = Key::from_hex(&known.key).unwrap_or_else(|| record.key(package, tree, options));
    let hit = cache.load_apart(&key, &id(&key))?;
    let anew = anew.map(|anew| anew.of(digest_of(&note), key.hex()));
    if let Some(anew) = anew.filter(|anew| *anew != known) {
        // Files whose stamps cannot be kept are read again at the next start.
        let _ = cache.store_stamps(&request, &anew);
    }
    let findings = &hit.artifact.artifact().metadata.findings;
    let diagnostics = findings.iter().filter_map(Diagnostic::from_finding).collect();
    Some(BuildOutput {
        artifact: hit.artifact,
        digest: hit.digest,
        diagnostics,
        cached: true,
        read: unsure.files.len(),
        root: package.root.clone(),
        dependency_manifest: record,
        evidence: tree.evidence(),
    })
}

/// Returns the key of a request: all settings and paths that are known before a file is read.
fn request(package: &Package, tree: &SourceTree, options: &BuildOptions) -> Key {
    let mut key = Key::builder("extension request");
    settings(&mut key, package, tree, options);
    key.finish()
}

fn settings(key: &mut KeyBuilder, package: &Package, tree: &SourceTree, options: &BuildOptions) {
    for root in tree.roots() {
        key.field(b"root").field(bytes_of(root));
    }
    key.field(&package.manifest);
    key.field(package.name.as_bytes());
    key.field(package.version.as_bytes());
    key.field(options.host.fingerprint());
    key.field(&[u8::from(options.minify)]);
    let Limits { file_bytes, total_bytes, files, nesting, operators } = options.limits;
    for limit in [file_bytes, total_bytes, files, nesting, operators] {
        key.field(&(limit as u64).to_le_bytes());
    }
    key.field(&[u8::from(package.loose)]);
    #[cfg(feature = "wasm")]
    if package.component || package.artifact {
        // Native code of another wasmtime, or for another processor, would be refused when it is loaded.
        key.field(pijs_wasm::engine_name().as_bytes());
    }
    for entry in &package.entries {
        key.field(b"entry").field(bytes_of(entry));
    }
}

fn manifest_of(package: &Package) -> Digest {
    Digest::of(Sha256::digest(&package.manifest).into())
}

/// Returns whether a manifest may name packages inside its own folder.
fn has_members(manifest: &[u8]) -> bool {
    let text = String::from_utf8_lossy(manifest);
    // A published manifest has no escaped letters; one with an escape might hide the names.
    ["workspaces", "file:", "\\u"].iter().any(|part| text.contains(part))
}

fn digest_of(bytes: &[u8]) -> String {
    hex::encode(Sha256::digest(bytes))
}

fn bytes_of(path: &Path) -> &[u8] {
    path.as_os_str().as_encoded_bytes()
}

/// Returns the id that the MAC of an artifact is bound to.
fn id(key: &Key) -> String {
    format!("extension:{key}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::package::Folders;
    use crate::resolve::{Input, resolve};
    use pijs_artifact::InstallKey;
    use pijs_protocol::artifact::ArtifactMetadata;
    use std::fs;

    #[test]
    fn a_package_changed_during_the_build_or_too_large_is_not_cached() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().canonicalize().expect("there").join(name);
        let put = |name: &str, text: &str| fs::write(at(name), text).expect("written");
        put("index.ts", "export default () => {};\n");
        put("package.json", "{}");
        let options = BuildOptions::default();
        let cache = Cache::open(at("cache"), InstallKey::from_bytes([7; 32]));
        let read = || {
            let package = resolve(&Input::at(folder.path()), &options.access).expect("a package");
            let folders = Folders { dependencies: Vec::new(), ..package.folders() };
            let tree = SourceTree::open(folders, &options.access, options.limits).expect("a tree");
            (package, tree)
        };
        let (package, tree) = read();
        tree.read(&package.entries[0]).expect("it is there");
        tree.probe(&at("a.ts"));
        assert!(tree.manifest(&at("lib/package.json")).is_none());
        let record = DependencyManifest::new(&package, &tree);
        let metadata = ArtifactMetadata::new("x", "1.0.0", pijs_engine::engine_build());
        let artifact = Artifact { metadata, modules: Vec::new() };
        let store = || {
            let (package, tree) = read();
            record.store(&cache, (&package, None), &tree, &options, (&artifact, "sha256:00"))
        };
        store().expect("nothing changed");
        fs::create_dir(at("lib")).expect("made");
        for (name, text) in [("index.ts", "evil()"), ("a.ts", ""), ("lib/package.json", "{}"), ("package.json", "{ }")]
        {
            let was = fs::read(at(name)).ok();
            put(name, text);
            assert!(store().is_err(), "{name}");
            match was {
                Some(was) => fs::write(at(name), was).expect("written"),
                None => fs::remove_file(at(name)).expect("removed"),
            }
            store().expect("as it was");
        }
        let names = (0..=MAX_ANSWERS).map(|number| (number.to_string(), PathKind::Nothing)).collect();
        let record = DependencyManifest { probed: [(at(""), names)].into(), ..record };
        let error = record
            .store(&cache, (&package, None), &tree, &options, (&artifact, "sha256:00"))
            .expect_err("too many names were probed");
        assert!(error.to_string().contains("were searched"), "{error}");
    }
}
