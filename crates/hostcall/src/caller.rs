//! The caller of a hostcall: its extension, and the activity of its realm.

use crate::places::normal;
use pijs_protocol::{ExtensionId, guard};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The caller of a hostcall, and the activity of its realm.
#[derive(Debug, Clone)]
pub struct Caller {
    /// Facts that do not change while the extension is loaded.
    pub profile: Arc<Profile>,
    /// Activity of the realm.
    pub during: During,
    /// Id of the running tool call, command or event, for the ledger.
    pub tool_call_id: Option<Arc<str>>,
    /// Id of the running event delivery, for the ledger.
    pub event_id: Option<Arc<str>>,
}

impl Caller {
    /// Creates the caller of an ordinary turn.
    pub fn new(profile: Arc<Profile>) -> Self {
        Self { profile, during: During::Turn, tool_call_id: None, event_id: None }
    }

    /// The calling extension.
    pub fn extension(&self) -> &ExtensionId {
        &self.profile.extension
    }

    /// Returns the caller for a call that the model makes after a message of the extension.
    #[must_use]
    pub fn behind_model(mut self) -> Self {
        self.during = During::Model;
        self
    }

    /// Returns the caller inside a verdict, where no prompt may block.
    #[must_use]
    pub fn in_verdict(mut self) -> Self {
        self.during = During::Verdict;
        self
    }
}

/// Facts about an extension that do not change while it is loaded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Profile {
    /// The extension.
    pub extension: ExtensionId,
    /// Folder of the extension's package, which it reads without consent. For a loose file, the folder that contains it; of that
    /// folder only `files` belong to the extension.
    pub package_root: Option<PathBuf>,
    /// Files of a loose extension: the file itself and the files that are compiled into it.
    pub files: Option<Vec<PathBuf>>,
    /// Folders of dependencies whose code is compiled into the extension, which may read them as well.
    pub dependencies: Vec<PathBuf>,
    /// `sha256:HEX` of the extension's artifact, for the ledger.
    pub artifact_id: Option<String>,
}

impl Profile {
    /// Creates a profile with a name only.
    pub fn new(extension: impl Into<ExtensionId>) -> Self {
        let (package_root, files, dependencies, artifact_id) = Default::default();
        Self { extension: extension.into(), package_root, files, dependencies, artifact_id }
    }

    /// Sets the package's folder.
    #[must_use]
    pub fn at(mut self, package_root: impl Into<PathBuf>) -> Self {
        self.package_root = Some(package_root.into());
        self
    }

    /// Adds the dependencies whose code is compiled into the extension, from the inputs of the artifact
    /// (`dep:NAME@VERSION/PATH`). Each is in the `node_modules` folder that contains the package, or else in one of a parent
    /// folder.
    #[must_use]
    pub fn with_inputs<'a>(mut self, inputs: impl IntoIterator<Item = &'a str>) -> Self {
        let Some(root) = self.package_root.as_deref() else { return self };
        let is_modules = |folder: &&Path| folder.file_name().is_some_and(|name| name == "node_modules");
        let around = || root.ancestors().skip(1);
        let modules: Vec<PathBuf> = match around().take(2).find(is_modules) {
            Some(modules) => vec![modules.to_path_buf()],
            None => around().map(|folder| folder.join("node_modules")).collect(),
        };
        let names: BTreeSet<&str> = inputs.into_iter().filter_map(dependency).collect();
        self.dependencies = names.iter().flat_map(|name| modules.iter().map(move |folder| folder.join(name))).collect();
        self
    }

    /// Makes this the profile of a single file in an arbitrary folder, such as a download or a script in the home. Of that folder
    /// the extension owns the file, the files that are compiled into it (`inputs` relative to `place`, as an artifact lists them)
    /// and entries with its name: `todo.json` and `todo/` next to `todo.ts`. Dependencies are in a `node_modules` folder of a
    /// parent folder.
    #[must_use]
    pub fn loose<'a>(mut self, file: &Path, place: &Path, inputs: impl IntoIterator<Item = &'a str>) -> Self {
        let folder = file.parent().unwrap_or(file);
        let mut files = vec![file.to_path_buf()];
        for input in inputs {
            match dependency(input) {
                Some(name) => {
                    self.dependencies.extend(folder.ancestors().map(|folder| folder.join("node_modules").join(name)))
                }
                // A manifest directs imports and is not compiled; in a home or a project it describes other code.
                None if input.rsplit('/').next() == Some("package.json") => {}
                None => files.push(normal(place, Path::new(input))),
            }
        }
        self.dependencies.sort_unstable();
        self.dependencies.dedup();
        self.package_root = Some(folder.to_path_buf());
        self.files = Some(files);
        self
    }

    /// Returns the folder or file of the extension that contains a path: its package, a dependency, or for a loose file the file
    /// itself, another of its files, or a sibling with its name.
    pub fn own_folder(&self, path: &Path) -> Option<PathBuf> {
        let of_dependency = || self.dependencies.iter().find(|folder| path.starts_with(folder)).cloned();
        let root = self.package_root.as_deref().filter(|root| path.starts_with(root));
        let Some(files) = self.files.as_ref().filter(|_| guard!(GateLooseFolder)) else {
            return root.map(Path::to_path_buf).or_else(of_dependency);
        };
        let bears_its_name = || {
            let beside = path.strip_prefix(root?).ok()?.iter().next()?;
            let own = files.first()?.file_stem()?;
            (Path::new(beside).file_stem()? == own).then(|| root.map(|root| root.join(beside)))?
        };
        files.iter().find(|file| path == *file).cloned().or_else(bears_its_name).or_else(of_dependency)
    }
}

/// Returns the package of an artifact's input, unless it is the artifact's own package.
fn dependency(input: &str) -> Option<&str> {
    let rest = input.strip_prefix("dep:")?;
    // The first character may be the `@` of a scope.
    let version = rest.get(1..)?.find('@')? + 1;
    let name = &rest[..version];
    let is_plain = name.split('/').all(|part| !matches!(part, "" | "." | ".."));
    is_plain.then_some(name)
}

/// The activity of a realm at the time of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum During {
    /// An ordinary macrotask.
    Turn,
    /// A streamed delta awaits the verdict; a prompt would block the model, so the call is denied instead.
    Verdict,
    /// The model calls a tool in a turn that a message of the extension started. The user's answers apply to such calls only and
    /// grant the extension itself nothing.
    Model,
}
