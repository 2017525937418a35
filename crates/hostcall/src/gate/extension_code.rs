//! Protects the code of the session's extensions.
//!
//! An extension that can write a file which another extension imports gets the grants of that extension at the next build. So
//! such a file is treated like a file that runs later: only a grant that names it allows the write. An extension may write its
//! own files.

use super::Gate;
use crate::caller::Profile;
use crate::subject::Access;
use pijs_protocol::{ExtensionId, guard};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::{PoisonError, RwLock};

/// Real paths of files, with the extensions that they are compiled into.
#[derive(Debug, Default)]
pub(super) struct ExtensionCode {
    files: RwLock<BTreeMap<PathBuf, BTreeSet<ExtensionId>>>,
    /// Package folders.
    folders: RwLock<BTreeMap<PathBuf, BTreeSet<ExtensionId>>>,
}

impl ExtensionCode {
    /// Returns whether a change at `path`, to a file there or below, affects code of an extension other than `profile`. Creating
    /// a folder that exists affects nothing below it.
    pub(super) fn is_others(&self, access: Access, path: &Path, profile: &Profile) -> bool {
        let files = self.files.read().unwrap_or_else(PoisonError::into_inner);
        let below = files.range::<Path, _>((Bound::Included(path), Bound::Unbounded));
        let is_others = |owners: &BTreeSet<ExtensionId>| owners.iter().any(|owner| *owner != profile.extension);
        let affected = |file: &Path| if access == Access::Make { file == path } else { file.starts_with(path) };
        let folders = self.folders.read().unwrap_or_else(PoisonError::into_inner);
        let in_folder = || path.ancestors().any(|above| folders.get(above).is_some_and(is_others));
        (below.take_while(|(file, _)| affected(file)).any(|(_, owners)| is_others(owners)) || in_folder())
            && guard!(GateCode)
    }
}

impl Gate {
    /// Registers a folder as the package of an extension: every file in it may be code.
    pub fn add_folder(&self, extension: &ExtensionId, folder: PathBuf) {
        let mut known = self.inner.code.folders.write().unwrap_or_else(PoisonError::into_inner);
        known.entry(folder).or_default().insert(extension.clone());
    }

    /// Registers the files that an extension was compiled from, by real path; earlier ones stay.
    pub fn add_code(&self, extension: &ExtensionId, files: impl IntoIterator<Item = PathBuf>) {
        let mut known = self.inner.code.files.write().unwrap_or_else(PoisonError::into_inner);
        for file in files {
            known.entry(file).or_default().insert(extension.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::places::Places;
    use crate::policy::Policy;

    #[test]
    fn code_of_others_is_recognised_by_file_and_folder() {
        let gate = Gate::builder(Policy::default(), Places::new("/p", "/h", "/h/.pi/agent", "/tmp")).build();
        let [one, two] = ["path:/x/one.ts", "path:/x/two.ts"].map(Profile::new);
        gate.add_code(&one.extension, ["/x/one.ts", "/x/lib/a.ts"].map(PathBuf::from));
        gate.add_code(&two.extension, ["/x/lib/a.ts"].map(PathBuf::from));
        let affects =
            |access, path: &str, profile: &Profile| gate.inner.code.is_others(access, Path::new(path), profile);
        let is_others = |path: &str, profile: &Profile| affects(Access::Write, path, profile);
        for path in ["/x/lib/a.ts", "/x/lib", "/x", "/"] {
            assert!(is_others(path, &one) && is_others(path, &two), "{path}");
        }
        assert!(is_others("/x/one.ts", &two) && !is_others("/x/one.ts", &one));
        assert!(affects(Access::Make, "/x/lib/a.ts", &one) && !affects(Access::Make, "/x/lib", &one));
        gate.add_folder(&two.extension, "/x/pkg".into());
        assert!(is_others("/x/pkg/new.ts", &one) && !is_others("/x/pkg/new.ts", &two));
        for path in ["/x/lib/b.ts", "/x/li", "/x/one.tsx", "/y"] {
            assert!(!is_others(path, &one) && !is_others(path, &two), "{path}");
        }
    }
}
