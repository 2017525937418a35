//! Checks texts for the model that extensions name in `resources_discover`.
//!
//! Every extension sees the beginning of a skill or prompt template (`getCommands()`), so naming a file there amounts to reading
//! it. An extension may name files that it may read, and files in its own folder:
//!
//! | location of the resolved file | may be named |
//! |---|---|
//! | in the extension's package, or in its data folder | yes |
//! | in the folder of an extension that is one file, unless that is the home | yes |
//! | where it may read, by default (the project, pi's folders) or by a grant | yes |
//! | anywhere else, and in protected paths | no |

use crate::extension::Slot;
use crate::host::Host;
use pijs_durable::without_links;
use pijs_hostcall::places::Protection;
use pijs_hostcall::requests::allow_command;
use pijs_hostcall::{Access, Profile};
use std::path::Path;
use std::rc::Rc;

impl Host {
    /// Returns whether an extension may name a file as a text for the model. `path` is the path that the extension gave, `real`
    /// the resolved file. A file that may be named is recorded as read.
    pub fn admits_text(&self, path: &str, real: &Path) -> bool {
        let Some(slot) = self.slot_of_path(path) else { return false };
        let caller = slot.cell.borrow().caller.clone();
        let permit = self.0.services.dispatcher.gate().permit(&caller, "fs");
        let own = caller.profile.own_folder(real);
        let is_closed = permit.places().protection(real, own.as_deref()) == Protection::All;
        let is_near = own.is_some() || is_beside(&caller.profile, real, &permit.places().home);
        let admitted = (is_near && !is_closed) || permit.path(Access::Read, real).is_ok();
        if admitted {
            permit.reads_content(real);
        }
        admitted
    }

    /// Reports a text that the extension may not name, and the command or move that allows it.
    pub fn leaves_out_text(&self, path: &str, real: &Path) {
        let Some(slot) = self.slot_of_path(path) else { return };
        let extension = slot.cell.borrow().package.id().to_string();
        let cure = allow_command(&extension, &[format!("read:{}", real.display())]);
        let message = format!(
            "{} is skipped: the extension adds it as a text for the model, but may not read it; move it into the folder of the extension, or run: {cure}",
            real.display()
        );
        self.report_error(path, "resources_discover", &message);
    }

    /// Returns the extension of the entry at a path.
    pub(crate) fn slot_of_path(&self, path: &str) -> Option<Rc<Slot>> {
        self.live_slots().into_iter().find(|slot| {
            let extension = slot.cell.borrow();
            extension.package.entries.iter().any(|entry| entry.path == path)
        })
    }
}

/// Returns whether a file is in the folder of a package, or in the folder of a single-file extension. The home folder never
/// counts as the folder of an extension in it.
fn is_beside(profile: &Profile, real: &Path, home: &Path) -> bool {
    let Some(root) = profile.package_root.as_deref() else { return false };
    let folder = without_links(root);
    let is_home = profile.files.is_some() && home.starts_with(&folder) && real.starts_with(home);
    real.starts_with(&folder) && !is_home
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_folder_of_a_file_is_its_own_and_the_home_is_not() {
        let beside = |file: &str, real: &str| {
            let file = Path::new(file);
            let profile = Profile::new("x").loose(file, Path::new("/"), []);
            is_beside(&profile, Path::new(real), Path::new("/home/me"))
        };
        assert!(beside("/opt/tools/x.ts", "/opt/tools/prompts/p.md"));
        assert!(beside("/home/me/tools/x.ts", "/home/me/tools/skills/a/SKILL.md"));
        assert!(beside("/w/x.ts", "/w/prompts/p.md"));
        assert!(!beside("/home/me/x.ts", "/home/me/notes/p.md") && !beside("/home/x.ts", "/home/me/notes/p.md"));
        assert!(!beside("/opt/tools/x.ts", "/opt/other/p.md"));
        let package = Profile::new("x").at("/home/me/tools");
        assert!(is_beside(&package, Path::new("/home/me/tools/p.md"), Path::new("/home/me")));
        assert!(!is_beside(&package, Path::new("/home/me/p.md"), Path::new("/home/me")));
    }
}
