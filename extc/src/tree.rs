//! The files that a build may read: one package, and folders of dependencies outside it.
//!
//! This is the only module of the compiler that opens files of a package. In a sandboxed build the parent's tree opens them and
//! serves the child's ([`file_proxy`](crate::file_proxy)). Paths are compared after links are resolved, and files are opened
//! through a handle of their root, so that neither `..` nor a link leads out. Reads are counted against the caps and remembered
//! with their digests, and so are probes of the resolver: both decide whether an artifact of the
//! [cache](crate::dependency_manifest) is current.
//!
//! [`FileAccess`] checks the canonical path of each opened file, for every reader: the linker, the resolver of
//! manifests, a lookup in the cache.

mod names;

pub(crate) use names::Located;

use crate::access::{Admission, Area, BuildRead, FileAccess, Refusal};
use crate::file_proxy::FileProxy;
use crate::limits::Limits;
use crate::no_follow;
use crate::package::Folders;
use crate::phase::{Phase, PhaseNotice};
use crate::probe::PathKind;
use cap_std::ambient_authority;
use cap_std::fs::Dir;
use names::DependencyIdentity;
use pijs_diagnostics::{Code, Diagnostic};
use pijs_durable::real_path;
use pijs_protocol::guard;
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read};
use std::path::{Component, Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};

/// A file that went into the build.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct InputFile {
    pub(crate) path: PathBuf,
    pub(crate) sha256: [u8; 32],
}

/// The readable folders of one build.
#[derive(Debug)]
pub(crate) struct SourceTree {
    roots: Vec<Root>,
    loose: Option<PathBuf>,
    limits: Limits,
    files: Files,
    /// Workspace members of the package, as links in its `node_modules`.
    member_links: OnceLock<MemberLinks>,
    log: Mutex<ReadLog>,
}

/// The links that `npm install` would create; see [`pijs_packages::members`].
#[derive(Debug, Default)]
struct MemberLinks {
    /// Target of each link relative to the link's folder, by the link's path.
    links: BTreeMap<PathBuf, String>,
    /// The folders that contain the links.
    folders: BTreeSet<PathBuf>,
}

/// The process that opens files.
#[derive(Debug)]
enum Files {
    /// This process, through handles of the roots, as far as `FileAccess` admits.
    Local(Vec<Dir>, FileAccess),
    /// The parent process.
    Proxied(FileProxy),
}

#[derive(Debug)]
struct Root {
    path: PathBuf,
    /// Index of the root in `roots`.
    index: usize,
    area: Area,
}

#[derive(Debug, Default)]
struct ReadLog {
    /// Input files by name.
    files: BTreeMap<String, InputFile>,
    total_bytes: usize,
    /// Folders whose enclosing manifests have been counted.
    counted: BTreeSet<PathBuf>,
    /// Manifests that were looked up; `None` if there is none.
    manifests: BTreeMap<PathBuf, Option<[u8; 32]>>,
    /// Probes of other paths.
    probed: BTreeMap<PathBuf, PathKind>,
    /// Sorted names in listed folders; `true` for a folder.
    listed: BTreeMap<PathBuf, Vec<(String, bool)>>,
    /// Claimed name and version of dependencies, by folder.
    packages: BTreeMap<PathBuf, DependencyIdentity>,
    /// Access decisions that are evidence: on foreign files, files that may hold secrets, and refused files.
    evidence: BTreeMap<PathBuf, FileEvidence>,
}

/// The access decision on a file that is not plain source of the package.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileEvidence {
    /// The file was read although it is not the extension's own, or it may hold secrets.
    Read {
        /// Whether the file may hold secrets.
        secrets: bool,
    },
    /// The file was refused.
    Refused,
}

/// Maximum number of names in a listed folder; a folder of plug-ins has fewer.
const LONGEST_LIST: usize = 500;
impl SourceTree {
    /// Opens the folders. Later reads are limited to files that `access` admits.
    pub(crate) fn open(folders: Folders, access: &FileAccess, limits: Limits) -> io::Result<Self> {
        let mut dependencies = Vec::with_capacity(folders.dependencies.len());
        for path in &folders.dependencies {
            match real_path(path) {
                // The path leads to another folder since the caller chose it.
                Ok(real) if real.file_name() != path.file_name() && guard!(BuildRootHandles) => {
                    return Err(io::Error::other(format!("{} leads to another folder now", path.display())));
                }
                Ok(real) => dependencies.push(real),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        let tree = Self::new(Folders { dependencies, ..folders }, limits, Files::Local(Vec::new(), access.clone()));
        let open = |path: &Path| match guard!(BuildRootHandles) {
            // No part of the path is a link now, so a decision about a path applies to the file opened below the handle.
            true => no_follow::folder_without_links(path),
            false => Dir::open_ambient_dir(path, ambient_authority()),
        };
        let handles = tree.roots().map(open).collect::<io::Result<_>>()?;
        Ok(Self { files: Files::Local(handles, access.clone()), ..tree })
    }

    /// Creates a tree that requests every file from `parent`, for a process that may open no files. `folders` are those of the
    /// parent's tree.
    pub(crate) fn over_proxy(parent: FileProxy, folders: Folders, limits: Limits) -> Self {
        Self::new(folders, limits, Files::Proxied(parent))
    }

    fn new(folders: Folders, limits: Limits, files: Files) -> Self {
        let Folders { package, dependencies, loose } = folders;
        let top = loose.as_deref().and_then(|file| file.ancestors().last()).map(Path::to_owned);
        let mut roots = vec![(package, Area::Package)];
        roots.extend(dependencies.into_iter().map(|path| (path, Area::Dependencies)));
        roots.extend(top.map(|path| (path, Area::Elsewhere)));
        let root = |(index, (path, area))| Root { path, index, area };
        Self {
            roots: roots.into_iter().enumerate().map(root).collect(),
            loose,
            limits,
            files,
            member_links: OnceLock::new(),
            log: Mutex::default(),
        }
    }

    /// Returns the folders, for a tree in another process.
    pub(crate) fn folders(&self) -> Folders {
        let dependencies = self.roots.iter().filter(|root| root.area == Area::Dependencies);
        Folders {
            package: self.package().to_owned(),
            dependencies: dependencies.map(|root| root.path.clone()).collect(),
            loose: self.loose.clone(),
        }
    }

    /// Returns the parent that serves this tree.
    pub(crate) fn parent(&self) -> Option<&FileProxy> {
        match &self.files {
            Files::Local(..) => None,
            Files::Proxied(parent) => Some(parent),
        }
    }

    /// Runs a phase of the compilation in its span, which a child opens in its parent's log.
    pub(crate) fn in_phase<T>(&self, phase: Phase, work: impl FnOnce() -> T) -> T {
        let Some(parent) = self.parent() else { return phase.span().in_scope(work) };
        parent.phase(PhaseNotice::Begin(phase));
        let result = work();
        parent.phase(PhaseNotice::End);
        result
    }

    pub(crate) fn package(&self) -> &Path {
        &self.roots[0].path
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Iterates the canonical roots: the package's folder, the folders of dependencies and, for a loose file, the root of the
    /// file system.
    pub(crate) fn roots(&self) -> impl Iterator<Item = &Path> {
        self.roots.iter().map(|root| root.path.as_path())
    }

    /// Returns whether a path is one of the roots.
    pub(crate) fn is_root(&self, path: &Path) -> bool {
        self.roots.iter().any(|root| root.area != Area::Elsewhere && root.path == path)
    }

    /// Returns the root of a path, if all folders below it belong to the package or to dependencies.
    pub(crate) fn stamped_root(&self, path: &Path) -> Option<&Path> {
        let (root, _) = self.root_of(path)?;
        let is_own = root.area == Area::Dependencies || root.area == Area::Package && self.loose.is_none();
        is_own.then_some(&root.path)
    }

    /// Decides about reading a file without reading it. An admission is recorded as evidence if a read would be.
    pub(crate) fn admits(&self, path: &Path) -> bool {
        let (Some((root, _)), Files::Local(_, access)) = (self.root_of(path), &self.files) else { return false };
        match self.judge(access, root, path, false) {
            Ok(admission) => {
                self.remember_admission(path, admission);
                true
            }
            Err(_) => false,
        }
    }

    fn remember_admission(&self, path: &Path, admission: Admission) {
        if admission != Admission::default() {
            self.log().evidence.insert(path.to_owned(), FileEvidence::Read { secrets: admission.secrets });
        }
    }

    fn root_of<'a>(&self, path: &'a Path) -> Option<(&Root, &'a Path)> {
        if path.components().any(|part| matches!(part, Component::ParentDir)) {
            return None;
        }
        self.roots.iter().find_map(|root| Some((root, path.strip_prefix(&root.path).ok()?)))
    }

    /// Probes a path, also outside of the roots. The answer is recorded, and does not change during a build.
    pub(crate) fn probe(&self, path: &Path) -> PathKind {
        // A root is canonical, so it and its ancestors are folders, not links.
        if self.roots().any(|root| root.starts_with(path)) {
            return PathKind::Folder;
        }
        // Specifiers are text, so every path derived from one is valid UTF-8.
        if path.to_str().is_none() {
            return PathKind::Other;
        }
        if let Some(known) = self.log().probed.get(path) {
            return known.clone();
        }
        let found = self.parent().map_or_else(|| self.probe_uncached(path), |parent| parent.probe(path));
        self.log().probed.insert(path.to_owned(), found.clone());
        found
    }

    /// Probes a path without a cache, as if the package's members were linked.
    pub(crate) fn probe_uncached(&self, path: &Path) -> PathKind {
        let found = PathKind::at(path);
        if found != PathKind::Nothing {
            return found;
        }
        match self.member_links(path) {
            Some(MemberLinks { links, .. }) if links.contains_key(path) => PathKind::Link(links[path].clone()),
            Some(MemberLinks { folders, .. }) if folders.contains(path) => PathKind::Folder,
            Some(_) => self.behind_member_link(path).map_or(PathKind::Nothing, |real| PathKind::at(&real)),
            None => PathKind::Nothing,
        }
    }

    /// Returns the members' links, if a path may lead through one.
    fn member_links(&self, path: &Path) -> Option<&MemberLinks> {
        let is_below = path.starts_with(self.package().join("node_modules"));
        is_below.then(|| self.member_links.get_or_init(|| self.find_members()))
    }

    /// Resolves a path through a member's link, unless another item exists at the link's path.
    fn behind_member_link(&self, path: &Path) -> Option<PathBuf> {
        let links = &self.member_links(path)?.links;
        let (link, target) = path.ancestors().skip(1).find_map(|folder| links.get_key_value(folder))?;
        let folder = target.trim_start_matches("../");
        let rest = path.strip_prefix(link).ok()?;
        (PathKind::at(link) == PathKind::Nothing).then(|| self.package().join(folder).join(rest))
    }

    /// Finds the members of a package. Records the relevant parts of their manifests with the probed links.
    fn find_members(&self) -> MemberLinks {
        let mut found = MemberLinks::default();
        let root = &self.roots[0];
        let read = |folder: &str| {
            let relative = Path::new(folder).join("package.json");
            self.read_bounded(root, &relative, &root.path.join(&relative)).ok()
        };
        let Some(manifest) = read("").filter(|_| self.loose.is_none()) else { return found };
        let members = pijs_packages::members(&manifest, &|| pijs_packages::manifest_folders(&root.path), &read);
        for (name, folder) in members {
            let link = root.path.join("node_modules").join(&name);
            let up = "../".repeat(name.split('/').count());
            found.folders.extend(link.ancestors().skip(1).take_while(|at| **at != root.path).map(Path::to_owned));
            found.links.insert(link, format!("{up}{folder}"));
        }
        found
    }

    /// Returns whether a folder encloses a loose file, so that its contents may belong to any user.
    pub(crate) fn is_around_loose(&self, folder: &Path) -> bool {
        self.loose.is_some() && folder == self.package()
    }

    /// Lists a folder of the package: sorted names, with `true` for a folder; links and hidden names are left out. The answer is
    /// recorded. Empty for a path that is not a folder, is too large, or is outside.
    pub(crate) fn list(&self, folder: &Path) -> Vec<(String, bool)> {
        let is_package = self.root_of(folder).is_some_and(|(root, _)| root.area == Area::Package);
        if !is_package {
            return Vec::new();
        }
        if let Some(known) = self.log().listed.get(folder) {
            return known.clone();
        }
        let listed = self.parent().map_or_else(|| self.listed_now(folder), |parent| parent.list(folder));
        self.log().listed.insert(folder.to_owned(), listed.clone());
        listed
    }

    /// Lists a folder without a cache.
    pub(crate) fn listed_now(&self, folder: &Path) -> Vec<(String, bool)> {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten().take(LONGEST_LIST + 1);
        let named = entries.filter_map(|entry| {
            let (name, kind) = (entry.file_name().into_string().ok()?, entry.file_type().ok()?);
            let is_shown = !name.starts_with('.') && name != "node_modules" && (kind.is_dir() || kind.is_file());
            is_shown.then(|| (name, kind.is_dir()))
        });
        let mut listed: Vec<(String, bool)> = named.collect();
        listed.sort();
        if listed.len() > LONGEST_LIST { Vec::new() } else { listed }
    }

    /// Returns the listed folders.
    pub(crate) fn lists(&self) -> BTreeMap<PathBuf, Vec<(String, bool)>> {
        self.log().listed.clone()
    }

    /// Decides about the file that `specifier` leads to, before it is read.
    pub(crate) fn admit(&self, path: &Path, specifier: &str) -> Result<(), Diagnostic> {
        let Some((root, _)) = self.root_of(path) else { return Ok(()) };
        match &self.files {
            Files::Local(_, access) => match self.judge(access, root, path, true) {
                Ok(_) => Ok(()),
                Err(refusal) => Err(self.refused(path, specifier, refusal)),
            },
            Files::Proxied(parent) => parent.admit(path, specifier),
        }
    }

    /// Returns whether an import of a file is refused. A refusal is recorded as evidence.
    pub(crate) fn is_refused(&self, path: &Path) -> bool {
        self.admit(path, "").is_err()
    }

    fn judge(&self, access: &FileAccess, root: &Root, path: &Path, imported: bool) -> Result<Admission, Refusal> {
        access.judge(&BuildRead { path, area: root.area, root: &root.path, loose: self.loose.as_deref(), imported })
    }

    /// Returns the diagnostic of a refused file, under the package's name for it, so that the artifact does not depend on the
    /// package's location. Records the refusal as evidence.
    fn refused(&self, path: &Path, name: &str, refusal: Refusal) -> Diagnostic {
        self.log().evidence.insert(path.to_owned(), FileEvidence::Refused);
        let allow = format!("run pi in a folder that holds both, or pass --allow 'read:{}'", path.display());
        let (why, help) = match refusal {
            Refusal::Protected => (
                "leads to a protected file, which no extension reads",
                "no grant permits reading it; remove the import".to_owned(),
            ),
            Refusal::Outside => (
                "leads out of the folder of the extension",
                format!("move the file below the folder of the extension, {allow}"),
            ),
            Refusal::NotOwn => (
                "is next to the extension, but does not belong to it",
                format!("give both the same name, move them into a separate folder, {allow}"),
            ),
        };
        Diagnostic::new(Code::Escape, format!("`{name}` {why}")).help(help)
    }

    /// Reads a manifest and records the read; `None` if it does not exist, or is outside of the roots.
    pub(crate) fn manifest(&self, path: &Path) -> Option<Vec<u8>> {
        let (root, relative) = self.root_of(path)?;
        let bytes = match self.parent() {
            Some(parent) => parent.manifest(path),
            None => self.read_bounded(root, relative, path).ok(),
        };
        self.remember_manifest(path, bytes.as_ref().map(|bytes| Sha256::digest(bytes).into()));
        bytes
    }

    fn remember_manifest(&self, path: &Path, digest: Option<[u8; 32]>) {
        // The reads differ, so stores a digest that no content of the file matches.
        self.log()
            .manifests
            .entry(path.to_owned())
            .and_modify(|known| {
                if *known != digest {
                    *known = Some([0; 32]);
                }
            })
            .or_insert(digest);
    }

    /// Returns the digest of a file without a cache; `None` if it cannot be read.
    pub(crate) fn digest(&self, path: &Path) -> Option<[u8; 32]> {
        let (root, relative) = self.root_of(path)?;
        self.read_bounded(root, relative, path).ok().map(|bytes| Sha256::digest(bytes).into())
    }

    /// Reads a file and records it as an input.
    pub(crate) fn read(&self, path: &Path) -> Result<Vec<u8>, Diagnostic> {
        let Some((root, relative)) = self.root_of(path) else {
            if !guard!(BuildTree) {
                return std::fs::read(path).map_err(|error| Diagnostic::new(Code::Read, error.to_string()));
            }
            return Err(Diagnostic::new(Code::Escape, format!("`{}` is outside the package", path.display())));
        };
        let name = self.locate(path).expect("the path is below a root").name;
        let read = || match self.parent() {
            Some(parent) => parent.read(path),
            None => self.read_bounded(root, relative, path).map_err(|failure| match failure {
                ReadFailure::Refused(path, refusal) => self.refused(&path, &name, refusal).in_file(&name),
                ReadFailure::Io(error) => self.unreadable(&name, &error),
            }),
        };
        let bytes = read()?;
        let mut seen = self.log();
        let file = InputFile { path: path.to_owned(), sha256: Sha256::digest(&bytes).into() };
        match seen.files.insert(name.clone(), file.clone()) {
            None => seen.total_bytes += bytes.len(),
            Some(before) if before != file && guard!(BuildDependencyNames) => {
                let message = match before.path == file.path {
                    true => "changed while it was compiled",
                    false => "another file of the package has this name",
                };
                return Err(Diagnostic::new(Code::Read, message).in_file(&name).help("build it again"));
            }
            Some(_) => {}
        }
        let too_much = seen.total_bytes > self.limits.total_bytes || seen.files.len() > self.limits.files;
        if too_much && guard!(BuildSize) {
            let message = format!(
                "the package imports more than {} MB or {} files",
                self.limits.total_bytes >> 20,
                self.limits.files
            );
            // Reported once, rather than for each file above the cap.
            return Err(Diagnostic::new(Code::Limit, message)
                .help("import only the needed part of a library; load data with `fs.readFileSync`"));
        }
        Ok(bytes)
    }

    fn unreadable(&self, name: &str, error: &io::Error) -> Diagnostic {
        if error.kind() == io::ErrorKind::FileTooLarge {
            let message = format!("larger than {} MB", self.limits.file_bytes >> 20);
            Diagnostic::new(Code::Limit, message)
                .help("load data with `fs.readFileSync` instead of importing it; of a library, import a smaller part")
        } else {
            Diagnostic::new(Code::Read, format!("cannot be read: {error}"))
        }
        .in_file(name)
    }

    /// Records the manifests around a dependency's file as inputs: they decide how an import of the file resolves.
    ///
    /// The package's own manifest is part of every request, so it is not repeated here.
    pub(crate) fn read_manifests(&self, path: &Path) -> Result<(), Diagnostic> {
        let Some((root, relative)) = self.root_of(path) else { return Ok(()) };
        for folder in relative.ancestors().skip(1) {
            if folder.as_os_str().is_empty() || folder.file_name().is_some_and(|name| name == "node_modules") {
                break;
            }
            let manifest = root.path.join(folder).join("package.json");
            if !self.log().counted.insert(manifest.clone()) {
                break;
            }
            if self.manifest(&manifest).is_some() {
                self.read(&manifest)?;
            }
        }
        Ok(())
    }

    fn read_bounded(&self, root: &Root, relative: &Path, path: &Path) -> Result<Vec<u8>, ReadFailure> {
        let Files::Local(handles, access) = &self.files else {
            return Err(io::Error::from(io::ErrorKind::Unsupported).into());
        };
        if let Some(real) = self.behind_member_link(path) {
            let (root, relative) = self.root_of(&real).ok_or(io::ErrorKind::NotFound)?;
            return self.read_bounded(root, relative, &real);
        }
        let judge = |root, path: &Path| {
            self.judge(access, root, path, false).map_err(|refusal| ReadFailure::Refused(path.to_owned(), refusal))
        };
        let (mut admission, mut real) = (judge(root, path)?, path.to_owned());
        let file = match no_follow::without_links(&handles[root.index], relative) {
            // The path is a link, so judges the canonical path. A link created from now on is not followed.
            Err(error) if no_follow::is_link(&error) => {
                real = real_path(path)?;
                let (root, relative) = self.root_of(&real).ok_or(io::ErrorKind::NotFound)?;
                admission = judge(root, &real)?;
                no_follow::without_links(&handles[root.index], relative)?
            }
            opened => opened?,
        };
        if !file.metadata()?.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file").into());
        }
        let cap = if guard!(BuildSize) { self.limits.file_bytes } else { self.limits.total_bytes };
        let mut bytes = Vec::new();
        file.take(cap as u64 + 1).read_to_end(&mut bytes)?;
        if bytes.len() > cap {
            return Err(io::Error::from(io::ErrorKind::FileTooLarge).into());
        }
        self.remember_admission(&real, admission);
        Ok(bytes)
    }

    /// Records the bytes of the package's own manifest, which the caller read to find the package.
    pub(crate) fn expect_manifest(&self, bytes: &[u8]) {
        if !bytes.is_empty() {
            let path = self.package().join("package.json");
            self.remember_manifest(&path, Some(Sha256::digest(bytes).into()));
        }
    }

    /// Returns the digest `sha256:HEX` of every input that decided the artifact, by name: compiled files, and the manifests that
    /// were used to resolve their imports.
    ///
    /// Grants are bound to these digests. A manifest is included with all its bytes: the resolver decides which members matter
    /// and may use more of them later, including the order of conditions under `exports`. The manifest of an installed package
    /// changes only with an install, which carries grants over by the requests.
    pub(crate) fn sources(&self) -> BTreeMap<String, String> {
        // A name derives from another manifest, which counts as well, even if it is only read here.
        self.manifests().keys().for_each(|path| drop(self.locate(path)));
        let manifests = if guard!(BuildManifests) { self.manifests() } else { BTreeMap::new() };
        let manifests = manifests.into_iter().filter_map(|(path, digest)| Some((self.locate(&path)?.name, digest?)));
        let files = self.inputs().into_iter().map(|(name, file)| (name, file.sha256));
        let mut sources: BTreeMap<String, [u8; 32]> = files.collect();
        for (name, digest) in manifests {
            let known = sources.entry(name).or_insert(digest);
            if *known != digest {
                // The file changed in between, and no file has this digest.
                *known = [0; 32];
            }
        }
        sources.into_iter().map(|(name, digest)| (name, format!("sha256:{}", hex::encode(digest)))).collect()
    }

    /// Returns everything that was read, by name.
    pub(crate) fn inputs(&self) -> BTreeMap<String, InputFile> {
        self.log().files.clone()
    }

    /// Returns every manifest that was probed, with its digest if it exists.
    pub(crate) fn manifests(&self) -> BTreeMap<PathBuf, Option<[u8; 32]>> {
        self.log().manifests.clone()
    }

    /// Returns the access decisions on files that are not plain source of the package.
    pub(crate) fn evidence(&self) -> BTreeMap<PathBuf, FileEvidence> {
        self.log().evidence.clone()
    }

    /// Returns all probed paths.
    pub(crate) fn probed(&self) -> BTreeMap<PathBuf, PathKind> {
        self.log().probed.clone()
    }

    fn log(&self) -> std::sync::MutexGuard<'_, ReadLog> {
        // After a panic the maps are consistent: each insert is one step.
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The reason why a file was not read.
#[derive(Debug)]
enum ReadFailure {
    Refused(PathBuf, Refusal),
    Io(io::Error),
}

impl<E: Into<io::Error>> From<E> for ReadFailure {
    fn from(error: E) -> Self {
        Self::Io(error.into())
    }
}

#[cfg(all(test, unix))]
mod tests;
