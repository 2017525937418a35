//! Manifests for the bundler, in a process that cannot open files.
//!
//! The bundler receives the path of a module's manifest and reads it itself. It needs two values from it: whether `.js` means an
//! ES module, and whether evaluating the module has side effects. So there is one in-memory file for each pair of values, created
//! before the process is sandboxed.

use rolldown_common::PackageJson;
use std::path::Path;

/// Values of [`PackageJson::type`]; each is combined with each known value of the side effects.
const TYPES: [Option<&str>; 3] = [None, Some("commonjs"), Some("module")];
const EFFECTS: [Option<bool>; 3] = [None, Some(false), Some(true)];

/// A file for each pair of values; empty where the system has no in-memory files.
#[derive(Debug)]
pub(crate) struct ManifestStubs(Vec<files::File>);

impl ManifestStubs {
    /// Creates the files.
    pub(crate) fn new() -> Self {
        let pairs = TYPES.iter().flat_map(|kind| EFFECTS.iter().map(move |effects| (kind, effects)));
        let text = |(kind, effects): (&Option<&str>, &Option<bool>)| {
            let mut manifest = serde_json::Map::new();
            manifest.extend(kind.map(|kind| ("type".to_owned(), kind.into())));
            manifest.extend(effects.map(|effects| ("sideEffects".to_owned(), effects.into())));
            serde_json::Value::from(manifest).to_string()
        };
        Self(pairs.map_while(|pair| files::of(&text(pair))).collect())
    }

    /// Returns the path of the stub with the same values as the manifest of `module`.
    pub(crate) fn of(&self, manifest: &oxc_resolver::PackageJson, module: &Path) -> Option<String> {
        let manifest = PackageJson::from_oxc_pkg_json(manifest);
        let inside = module.strip_prefix(manifest.realpath().parent()?).ok()?;
        let effects = manifest.check_side_effects_for(&inside.to_string_lossy());
        let row = TYPES.iter().position(|kind| *kind == manifest.r#type())?;
        let column = EFFECTS.iter().position(|known| *known == effects)?;
        self.0.get(row * EFFECTS.len() + column).map(files::path)
    }
}

#[cfg(target_os = "linux")]
mod files {
    use std::os::fd::AsRawFd as _;

    pub(super) type File = std::os::fd::OwnedFd;

    pub(super) fn of(text: &str) -> Option<File> {
        let file = rustix::fs::memfd_create(c"package.json", rustix::fs::MemfdFlags::CLOEXEC).ok()?;
        let written = rustix::io::pwrite(&file, text.as_bytes(), 0).ok()?;
        (written == text.len()).then_some(file)
    }

    pub(super) fn path(file: &File) -> String {
        format!("/proc/self/fd/{}", file.as_raw_fd())
    }
}

#[cfg(not(target_os = "linux"))]
mod files {
    pub(super) type File = std::convert::Infallible;

    pub(super) fn of(_text: &str) -> Option<File> {
        None
    }

    pub(super) fn path(file: &File) -> String {
        match *file {}
    }
}
