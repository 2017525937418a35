//! Resolve: from the user's path to a package folder and its extension entries.
//!
//! pi's rules for the entries of a folder are in `pijs-packages`. A file is one extension by itself; its package is its folder,
//! and [`access`](crate::access) decides which imports it may read.

use crate::access::{Area, BuildRead, FileAccess};
use crate::package::{LockEntry, Package, without_mark};
use crate::prebuilt;
use pijs_diagnostics::{Code, Diagnostic};
use pijs_durable::{read_regular, real_path};
use pijs_packages::{InstallCode, PackageError, is_artifact_file, is_component_file, package_entries};
use pijs_protocol::guard;
use serde_json::Value;
use std::path::{Path, PathBuf};

/// Maximum size of a manifest, in bytes.
const LONGEST_MANIFEST: u64 = 4 << 20;

/// The input of the compiler: a package folder or one extension file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Input {
    path: PathBuf,
    entries: Option<Vec<PathBuf>>,
    dependencies: Option<Vec<PathBuf>>,
    lock: Option<LockEntry>,
}

impl Input {
    /// Returns the folder or file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns whether the input is an artifact, or a folder of which only an artifact was selected.
    pub fn is_artifact(&self) -> bool {
        match self.entries.as_deref() {
            Some([entry]) => is_artifact_file(&self.path.join(entry)),
            Some(_) => false,
            None => is_artifact_file(&self.path),
        }
    }

    /// Accepts a package folder, an extension file, an artifact, or the folder of an artifact. Dependencies may come from the
    /// package and the `node_modules` folders around it, as under Node.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), entries: None, dependencies: None, lock: None }
    }

    /// Sets the files of the package folder to compile, in this order, regardless of its manifest. For callers
    /// that have selected the entries by settings or the user's choice. Relative paths start at the folder.
    ///
    /// ```no_run
    /// let input = pijs_extc::Input::at("pkg").with_entries(vec!["extensions/b.ts".into(), "extensions/a.ts".into()]);
    /// ```
    #[must_use]
    pub fn with_entries(mut self, entries: Vec<PathBuf>) -> Self {
        self.entries = Some(entries);
        self
    }

    /// Trusts a `pijs-lock.json` for the dependencies that it lists under `identity` within the package: they are read once,
    /// until that file changes. Use it for packages in a store, which only an installation writes.
    #[must_use]
    pub fn locked(mut self, file: impl Into<PathBuf>, identity: &str) -> Self {
        self.lock = Some(LockEntry { file: file.into(), identity: identity.to_owned() });
        self
    }

    pub(crate) fn lock(&self) -> Option<&LockEntry> {
        self.lock.as_ref()
    }

    /// Limits dependencies to those in the package and in these folders.
    #[must_use]
    pub fn with_dependencies(mut self, folders: Vec<PathBuf>) -> Self {
        self.dependencies = Some(folders);
        self
    }
}

/// Finds the package and its entries.
pub(crate) fn resolve(input: &Input, access: &FileAccess) -> Result<Package, Diagnostic> {
    let shown = input.path.display();
    let path = real_path(&input.path)
        .map_err(|error| Diagnostic::new(Code::Entry, format!("{shown}: {error}")).help("check the path"))?;
    if path.to_str().is_none() {
        return Err(Diagnostic::new(Code::Entry, format!("{shown}: the path is not UTF-8")));
    }
    let (root, entries, stem) = if path.is_dir() {
        (path.clone(), None, path.file_name())
    } else {
        let root = path.parent().expect("a file is in a folder").to_owned();
        let stem = if path.file_stem().is_some_and(|stem| stem == "index") {
            path.parent().and_then(Path::file_name)
        } else {
            path.file_stem()
        };
        (root, Some(vec![path.clone()]), stem)
    };
    let loose = entries.is_some();
    let manifest = read_manifest(&root, loose, access)?;
    let json: Value = if manifest.is_empty() {
        Value::Null
    } else {
        serde_json::from_slice(without_mark(&manifest)).map_err(|error| {
            Diagnostic::of_json(Code::Entry, "package.json", &String::from_utf8_lossy(&manifest), &error)
        })?
    };
    let stem = stem.map_or_else(|| "extension".to_owned(), |stem| stem.to_string_lossy().into_owned());
    let field = |name: &str| json.get(name).and_then(Value::as_str).filter(|_| !loose);
    let entries = match (entries, &input.entries) {
        (Some(file), _) => file,
        (None, Some(chosen)) => chosen.iter().map(|entry| root.join(entry)).collect(),
        (None, None) => entries_of_folder(&root)?,
    };
    let entries = entries.into_iter().map(|entry| contained(&root, entry)).collect::<Result<Vec<_>, _>>()?;
    if entries.is_empty() {
        return Err(Diagnostic::new(
            Code::Entry,
            format!("{shown}: no extension here, only skills, prompts or themes"),
        )
        .help("they need no build; list extensions under `pi.extensions` in package.json"));
    }
    let artifacts = entries.iter().filter(|entry| is_artifact_file(entry)).count();
    if artifacts > 0 && entries.len() > 1 {
        return Err(Diagnostic::new(Code::Entry, format!("{shown}: an artifact among other entries"))
            .help("an artifact holds all entries of its extension; keep it in a separate folder"));
    }
    let component = entries.iter().any(|entry| is_component_file(entry));
    if component && entries.len() > 1 {
        return Err(Diagnostic::new(Code::Entry, format!("{shown}: a component among other entries"))
            .help("a component has a separate realm: build it by its own path; pi install builds each by itself"));
    }
    if artifacts > 0 {
        let prebuilt::Claims { name, version } = prebuilt::claims(&entries[0], &root, access)?;
        // A manifest or dependency next to a loose file does not belong to it.
        let (manifest, dependencies) = (Vec::new(), Vec::new());
        return Ok(Package {
            root,
            name,
            version,
            manifest,
            entries,
            dependencies,
            loose,
            artifact: true,
            component: false,
        });
    }
    Ok(Package {
        name: field("name").unwrap_or(&stem).to_owned(),
        version: field("version").unwrap_or("0.0.0").to_owned(),
        dependencies: input.dependencies.clone().map_or_else(|| folders_around(&root), Ok)?,
        root,
        manifest,
        entries,
        loose,
        artifact: false,
        component,
    })
}

/// Reads the folder's own manifest; empty if there is none. Fails if it is a link to a protected file, or a link of a package out
/// of its folder. A manifest next to a loose file does not describe it, and is ignored.
fn read_manifest(root: &Path, loose: bool, access: &FileAccess) -> Result<Vec<u8>, Diagnostic> {
    let Ok(path) = real_path(&root.join("package.json")) else { return Ok(Vec::new()) };
    let refused = |why: &str| match path.starts_with(root) {
        true => Diagnostic::new(Code::Escape, format!("`{}` is {why}", path.display()))
            .help("PiJS keeps sessions or other state in this folder; move the package to another one"),
        false => {
            Diagnostic::new(Code::Escape, format!("`package.json` is a link to `{}`, which is {why}", path.display()))
                .help("put a manifest of the package in its place")
        }
    };
    let read = BuildRead { path: &path, area: Area::Package, root, loose: None, imported: false };
    if access.judge(&read).is_err() {
        return Err(refused("protected"));
    }
    if !path.starts_with(root) && guard!(BuildManifest) {
        return if loose { Ok(Vec::new()) } else { Err(refused("outside the package")) };
    }
    Ok(read_regular(&path, LONGEST_MANIFEST).unwrap_or_default())
}

fn contained(root: &Path, entry: PathBuf) -> Result<PathBuf, Diagnostic> {
    let shown = entry.strip_prefix(root).unwrap_or(&entry).display();
    let canonical = real_path(&entry).map_err(|error| {
        Diagnostic::new(Code::Entry, format!("the entry `{shown}` cannot be opened: {error}")).help("check the path")
    })?;
    if !canonical.starts_with(root) && guard!(BuildEntry) {
        return Err(Diagnostic::new(Code::Escape, format!("the entry `{shown}` is outside the package"))
            .help("entries are files of the package; a link that leads out of it is not an entry"));
    }
    if canonical.to_str().is_none() {
        return Err(Diagnostic::new(Code::Entry, format!("the entry `{shown}`: its path is not UTF-8"))
            .help("give the file another name"));
    }
    Ok(canonical)
}

/// Maximum number of `node_modules` folders around a package. Each import of a package probes each of them, so their number
/// bounds the time of a build; real projects have fewer than 10, even with a package manager that nests them.
const MAX_FOLDERS_AROUND: usize = 32;

/// Returns every `node_modules` folder outside of `root` that Node would search, nearest first. A link is included only if its
/// target has that name: any other folder holds more than dependencies.
pub(crate) fn folders_around(root: &Path) -> Result<Vec<PathBuf>, Diagnostic> {
    let mut folders: Vec<PathBuf> = Vec::new();
    for around in root.ancestors().skip(1) {
        let is_one = around.file_name().is_some_and(|name| name == "node_modules");
        let folder = if is_one { around.to_owned() } else { around.join("node_modules") };
        if folders.contains(&folder) || !folder.is_dir() || (!holds_dependencies(&folder) && guard!(BuildModules)) {
            continue;
        }
        if folders.len() == MAX_FOLDERS_AROUND && guard!(BuildFoldersAround) {
            let message = format!("the package is inside more than {MAX_FOLDERS_AROUND} `node_modules` folders");
            return Err(Diagnostic::new(Code::Limit, message).help("move it out of these folders"));
        }
        folders.push(folder);
    }
    Ok(folders)
}

fn holds_dependencies(folder: &Path) -> bool {
    real_path(folder).is_ok_and(|real| real.file_name().is_some_and(|name| name == "node_modules"))
}

/// Returns the entries that pi would load from the folder, or why there are none.
fn entries_of_folder(root: &Path) -> Result<Vec<PathBuf>, Diagnostic> {
    let entries = package_entries(root, true).map_err(of_package)?;
    match entries.nothing {
        Some(why) => Err(of_package(why)),
        None => Ok(entries.files),
    }
}

fn of_package(error: PackageError) -> Diagnostic {
    let code = match error.code {
        InstallCode::Size => Code::Limit,
        InstallCode::Path => Code::Escape,
        _ => Code::Entry,
    };
    let diagnostic = Diagnostic::new(code, error.message);
    match error.help {
        Some(help) => diagnostic.help(help),
        None => diagnostic,
    }
}
