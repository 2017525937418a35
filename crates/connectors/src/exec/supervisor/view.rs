//! Closes files to a program and to all it starts, whatever names it uses for them.
//!
//! Landlock knows permissions and no exceptions, and a permission for a folder covers all below it. So everything is
//! permitted but the folders on the way to what is closed: of those, each entry is permitted by itself. Nothing new can be made
//! directly in such a folder. Names of files, and which files there are, stay visible.

use landlock::{
    ABI, AccessFs, BitFlags, PathBeneath, PathFd, Ruleset, RulesetAttr as _, RulesetCreated, RulesetCreatedAttr as _,
    RulesetError,
};
use std::io;
use std::path::{Path, PathBuf};

/// Restricts this thread. On a kernel without Landlock nothing changes.
pub(super) fn confine(closed: &[PathBuf], unwritten: &[PathBuf]) -> io::Result<()> {
    if closed.is_empty() && unwritten.is_empty() {
        return Ok(());
    }
    let refused = |error: RulesetError| io::Error::new(io::ErrorKind::PermissionDenied, error);
    let all = AccessFs::from_write(ABI::V5) | AccessFs::ReadFile;
    let rules = Ruleset::default().handle_access(all).and_then(Ruleset::create).map_err(refused)?;
    let rules = View { closed, unwritten }.permit_inside(rules, Path::new("/"), all).map_err(refused)?;
    rules.restrict_self().map_err(refused)?;
    Ok(())
}

struct View<'a> {
    closed: &'a [PathBuf],
    unwritten: &'a [PathBuf],
}

impl View<'_> {
    /// Permits the entries of a folder on the way to something that is closed.
    fn permit_inside(
        &self,
        mut rules: RulesetCreated,
        folder: &Path,
        access: BitFlags<AccessFs>,
    ) -> Result<RulesetCreated, RulesetError> {
        // A folder that cannot be listed holds nothing that the program could name.
        for entry in folder.read_dir().into_iter().flatten().flatten() {
            let path = entry.path();
            // A link is not followed: what it leads to is permitted where it lies, or is not.
            let Ok(kind) = entry.file_type() else { continue };
            if kind.is_symlink() || self.closed.contains(&path) {
                continue;
            }
            let access = if self.unwritten.contains(&path) { AccessFs::ReadFile.into() } else { access };
            let is_above = |kept: &PathBuf| kept.starts_with(&path) && *kept != path;
            let is_on_the_way = self.closed.iter().any(is_above)
                || (access != AccessFs::ReadFile && self.unwritten.iter().any(is_above));
            if kind.is_dir() && is_on_the_way {
                rules = self.permit_inside(rules, &path, access)?;
            } else if let Ok(file) = PathFd::new(&path) {
                let access = if kind.is_dir() { access } else { access & AccessFs::from_file(ABI::V5) };
                rules = rules.add_rule(PathBeneath::new(file, access))?;
            }
        }
        Ok(rules)
    }
}
