//! Merges the `packages` of the project's and the user's settings into the selection of a session.
//!
//! For a package that both list, the project's entry takes precedence. A project's entry with `"autoload": false` only modifies
//! the user's entry of the same package: its patterns add and remove files, and everything else stays as the user chose.
//!
//! ```text
//! user:    {"source": "npm:x", "extensions": ["extensions/[ab].ts"]}
//! project: {"source": "npm:x", "autoload": false, "extensions": ["+extensions/d.ts", "-extensions/a.ts"]}
//! loaded:  extensions/d.ts, extensions/b.ts
//! ```

use crate::InstallScope;
use crate::entries::{apply_filter, delta_decisions};
use crate::error::Result;
use crate::settings::{Configured, PackageSettings};
use crate::source::PackageSource;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// An effective entry of settings.
pub(crate) struct Selected {
    /// Scope of the entry.
    pub(crate) scope: InstallScope,
    /// Package that the entry names, or the parse error.
    pub(crate) source: Result<PackageSource>,
    /// Scope that the package is installed in; the user's scope for a change to the user's entry.
    pub(crate) lies_in: InstallScope,
    pub(crate) choice: FileChoice,
    /// Whether the entry only modifies the user's entry, which follows.
    pub(crate) is_change: bool,
}

/// Files of a package that an entry selects.
pub(crate) struct FileChoice {
    pub(crate) configured: Configured,
    /// Change that the project makes to the user's entry.
    change: Option<Configured>,
}

/// Lists the effective entries of settings, in pi's order. The project's settings come first.
pub(crate) fn selected(settings: &[(InstallScope, PackageSettings)], home: &Path) -> Vec<Selected> {
    let mut all: Vec<Selected> = Vec::new();
    // Indexes in the list, by identity.
    let mut known: BTreeMap<String, usize> = BTreeMap::new();
    for (scope, settings) in settings {
        for configured in settings.packages() {
            let source = PackageSource::from_settings(&configured.text, settings.dir(), home);
            let identity = source.as_ref().ok().map(PackageSource::identity);
            let before = identity.as_ref().and_then(|identity| known.get(identity).copied());
            let mut change = None;
            if let Some(before) = before {
                let before = &mut all[before];
                let is_change = *scope == InstallScope::User && before.scope == InstallScope::Project;
                if !is_change || before.choice.configured.autoload || before.is_change {
                    continue;
                }
                change = Some(before.choice.configured.clone());
                (before.is_change, before.lies_in) = (true, *scope);
                before.source = PackageSource::from_settings(&configured.text, settings.dir(), home);
            }
            if let Some(identity) = identity {
                known.insert(identity, all.len());
            }
            let choice = FileChoice { configured, change };
            all.push(Selected { scope: *scope, source, lies_in: *scope, choice, is_change: false });
        }
    }
    all
}

impl FileChoice {
    fn change_of(&self, key: &str) -> Option<&[String]> {
        self.change.as_ref()?.filter_of(key).filter(|patterns| !patterns.is_empty())
    }

    /// Returns whether no file of a kind is loaded, whatever the package contains.
    pub(crate) fn is_empty(&self, key: &str) -> bool {
        let own = self.configured.filter_of(key);
        own.map_or(!self.configured.autoload, <[String]>::is_empty) && self.change_of(key).is_none()
    }

    /// Selects the files of a kind. `offered` are the files that load by default, `all` the files that patterns may match. Files
    /// about which a change decides are left out.
    pub(crate) fn choose(
        &self,
        key: &str,
        root: &Path,
        offered: impl FnOnce() -> Vec<PathBuf>,
        all: impl Fn() -> Vec<PathBuf>,
    ) -> Result<Vec<PathBuf>> {
        let Configured { autoload, .. } = self.configured;
        let own = match self.configured.filter_of(key) {
            Some([]) => Vec::new(),
            Some(filter) if autoload => apply_filter(root, all(), filter)?,
            Some(filter) => named_by(root, all(), filter)?,
            None if !autoload => Vec::new(),
            None => offered(),
        };
        let Some(change) = self.change_of(key) else { return Ok(own) };
        let decisions = delta_decisions(root, &own, change)?;
        let undecided = |(file, decision): (PathBuf, Option<bool>)| decision.is_none().then_some(file);
        Ok(own.into_iter().zip(decisions).filter_map(undecided).collect())
    }

    /// Returns the files of a kind that the project's change adds.
    pub(crate) fn added(&self, key: &str, root: &Path, all: Vec<PathBuf>) -> Result<Vec<PathBuf>> {
        self.change_of(key).map_or(Ok(Vec::new()), |change| named_by(root, all, change))
    }
}

/// Returns the files that an entry with `"autoload": false` selects.
fn named_by(root: &Path, files: Vec<PathBuf>, filter: &[String]) -> Result<Vec<PathBuf>> {
    let decisions = delta_decisions(root, &files, filter)?;
    let is_on = |(file, decision): (PathBuf, Option<bool>)| (decision == Some(true)).then_some(file);
    Ok(files.into_iter().zip(decisions).filter_map(is_on).collect())
}
