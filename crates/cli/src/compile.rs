//! Compiling extensions for this run: `extc` with the user's cache.

use crate::output::stderr;
use pijs_artifact::Verified;
use pijs_extc::{BuildFailure, BuildOptions, BuildOutput, Cache, Input};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// `extc`, set up for one run.
#[derive(Clone)]
pub(crate) struct Compiler {
    options: BuildOptions,
}

impl Compiler {
    /// Uses the user's cache; without one everything is compiled, and that is said once.
    pub(crate) fn new() -> Self {
        let cache = match Cache::user() {
            Ok(cache) => Some(cache),
            Err(error) => {
                stderr(&format!(
                    "warning: the artifact cache cannot be used, so extensions are compiled at every start: {error}"
                ));
                None
            }
        };
        Self { options: BuildOptions { cache, ..BuildOptions::default() } }
    }

    /// Compiles a package folder, or one loose file.
    pub(crate) fn build(&self, path: &Path) -> Result<BuildOutput, BuildFailure> {
        pijs_extc::build(&Input::at(path), &self.options)
    }

    /// The host modules every realm needs.
    pub(crate) fn host_modules(&self) -> Result<Arc<Verified>, BuildFailure> {
        pijs_extc::host_modules(self.options.cache.as_ref())
    }
}

/// What to compile for a unit of discovery: its folder, or the one file that is loaded from it.
pub(crate) fn input_of(id: &str, root: &Path, entries: &[PathBuf]) -> PathBuf {
    match entries {
        [entry] if id == format!("path:{}", entry.display()) => entry.clone(),
        _ => root.to_owned(),
    }
}
