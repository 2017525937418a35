//! Decides about symbolic links that an extension makes, copies or moves.
//!
//! An access through this connector is decided again at the file that it reaches. An access of the user, of a program, or of the
//! model in the user's turn is not, and its result may come back to the extension. So a link is permitted only if the extension
//! may read its target. The target of a relative link depends on the folder around the link, so each link in a moved folder is
//! decided at its new place.
//!
//! A target may be missing, or names on the way to it may become links later. Two rules keep such a link from leading to a
//! protected file: no link leads to a folder that contains protected files, and the text of a target has `..` only at its
//! beginning, so that a link on the way cannot change the folder in which a `..` begins.

use super::FsState;
use super::error::{ENOENT, FsError, code};
use crate::system::{Dir, Kind};
use pijs_durable::without_links;
use pijs_hostcall::places::{Protection, normal};
use pijs_hostcall::{Access, Permit, ReadBy, Reason, Request};
use pijs_protocol::guard;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::{Component, Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Maximum number of links in a folder that is moved.
const MAX_MOVED_LINKS: usize = 10_000;

const LEADS_OUT: &str = "a link of it would lead to where the extension may not read; remove the link, or grant read";
const HAS_LATER_STEPS: &str = "write the target of the link without `..` after a name";
const IS_ABOVE: &str = "protected files are below the target; link to a folder or file further down";

static PLACES_OF_LINKS: Mutex<()> = Mutex::new(());

/// Keeps links and folders in place from a decision about them to the change. The lock belongs to the process, because extensions
/// of several sessions may share folders.
pub(super) fn hold_links() -> MutexGuard<'static, ()> {
    PLACES_OF_LINKS.lock().unwrap_or_else(PoisonError::into_inner)
}

fn refused(reason: Reason, hint: &'static str) -> FsError {
    FsError::DeniedLink(reason, hint)
}

/// Checks a new link. The caller may read its target under a grant, or has made it.
pub(super) fn check_new(request: &Request, target: &Path, link: &Path) -> Result<(), FsError> {
    check_target(target)?;
    for names in targets(link, target) {
        check_readable(&request.permit, &names).map_err(|reason| FsError::Denied("read", reason))?;
        check_contents(&request.permit, &names)?;
    }
    check_protected_below(request, link)
}

/// Checks a link that is copied. Its target may be missing where the caller writes, because it may be copied later.
pub(super) fn check_copied(request: &Request, target: &Path, link: &Path) -> Result<(), FsError> {
    check_target(target)?;
    for names in targets(link, target) {
        let readable = request.permit.path(Access::Read, &names);
        readable.map_err(|reason| FsError::Denied("read", reason))?;
        check_contents(&request.permit, &names)?;
    }
    check_protected_below(request, link)
}

/// A file or folder that is moved, by its real path before and afterwards.
pub(super) struct Move<'a> {
    pub(super) request: &'a Request,
    pub(super) from: &'a Path,
    pub(super) to: &'a Path,
    links: usize,
}

impl<'a> Move<'a> {
    pub(super) fn new(request: &'a Request, from: &'a Path, to: &'a Path) -> Self {
        Self { request, from, to, links: 0 }
    }

    /// Checks the link `name` in a folder, where `link` is its path before the move. Under another name, such as `README.md`, the
    /// user and programs would read its target.
    pub(super) fn check_link(&mut self, dir: &dyn Dir, name: &OsStr, link: &Path) -> Result<(), FsError> {
        self.links += 1;
        if self.links > MAX_MOVED_LINKS {
            return Err(FsError::TooManyLinks(MAX_MOVED_LINKS));
        }
        let target = dir.readlink(name)?;
        let permit = &self.request.permit;
        let is_closed = |path: &PathBuf| permit.places().protection(path, permit.package_root()) == Protection::All;
        let afterwards = match link.strip_prefix(self.from) {
            Ok(rest) if !rest.as_os_str().is_empty() => self.to.join(rest),
            _ => self.to.to_owned(),
        };
        let (before, after) = (targets(link, &target), targets(&afterwards, &target));
        if !guard!(FsMovedLinks) {
            return Ok(());
        }
        if before.iter().chain(&after).any(is_closed) {
            return Err(FsError::Denied("read", Reason::ProtectedPath));
        }
        check_target(&target)?;
        // What is moved along stays what the link leads to.
        let is_moved_along = normal(folder_of(&afterwards), &target).starts_with(self.to);
        for names in &after {
            check_contents(permit, names)?;
            if !is_moved_along {
                check_readable(permit, names).map_err(|reason| refused(reason, LEADS_OUT))?;
            }
        }
        Ok(())
    }

    /// Checks the permit for a name in a moved folder.
    pub(super) fn check_name(&self, path: &Path, kind: Kind) -> Result<(), FsError> {
        let permit = &self.request.permit;
        permit.path(Access::Write, path).map_err(|reason| FsError::Denied("write", reason))?;
        if kind != Kind::Dir && guard!(FsFolderReads) {
            permit.reads_content(path);
        }
        Ok(())
    }
}

impl FsState {
    /// Makes a copied link in an open folder, unless the folder has been moved since it was opened: the decision is about its
    /// place.
    pub(super) fn copy_link(
        &self,
        request: &Request,
        target: &Path,
        (dir, name): (&dyn Dir, &OsStr),
        link: &Path,
    ) -> Result<(), FsError> {
        let _held = hold_links();
        check_copied(request, target, link)?;
        if !self.is_at(&request.permit, dir, folder_of(link))? {
            return Err(code(ENOENT).into());
        }
        Ok(dir.symlink(target, name)?)
    }
}

/// Refuses a folder or link at `to` whose contents would end up at a protected path: an `extensions` that becomes
/// `.pi/extensions`, for example.
pub(super) fn check_protected_below(request: &Request, to: &Path) -> Result<(), FsError> {
    if request.permit.places().is_above_protected(to) && guard!(GateBrought) {
        return Err(FsError::Denied("write", Reason::ProtectedPath));
    }
    Ok(())
}

fn folder_of(link: &Path) -> &Path {
    link.parent().unwrap_or(link)
}

fn check_readable(permit: &Permit, path: &Path) -> Result<(), Reason> {
    match permit.reads(path)? {
        ReadBy::Grant | ReadBy::Making(_) => Ok(()),
        ReadBy::Writing => Err(Reason::Scope),
    }
}

/// Refuses a target that goes up again after a name: if the name becomes a link, it leads elsewhere.
fn check_target(target: &Path) -> Result<(), FsError> {
    let mut steps = target.components().skip_while(|step| !matches!(step, Component::Normal(_)));
    if steps.any(|step| step == Component::ParentDir) && guard!(FsLinkSteps) {
        return Err(refused(Reason::Scope, HAS_LATER_STEPS));
    }
    Ok(())
}

/// Refuses a target with protected files below it: a link to a name below the link may exist already. Exempt are folders of the
/// project, of the extension itself and of extensions: they belong to the session or contain code.
fn check_contents(permit: &Permit, target: &Path) -> Result<(), FsError> {
    let places = permit.places();
    let is_exempt = target.starts_with(&places.project)
        || permit.package_root().is_some_and(|root| target.starts_with(root))
        || target.starts_with(places.agent_dir.join("extensions"));
    let is_above = match is_exempt {
        true => [&places.home, &places.agent_dir].into_iter().any(|folder| folder.starts_with(target)),
        false => places.is_above_protected(target),
    };
    if is_above && guard!(FsLinkedAbove) {
        return Err(refused(Reason::ProtectedPath, IS_ABOVE));
    }
    Ok(())
}

/// Returns the target of a link: lexically, and with the links on the way resolved as far as they exist.
fn targets(link: &Path, target: &Path) -> BTreeSet<PathBuf> {
    let (root, folder) = (Path::new("/"), folder_of(link));
    let lexical = normal(folder, target);
    let resolved = [normal(root, &without_links(&folder.join(target))), normal(root, &without_links(&lexical))];
    BTreeSet::from_iter(resolved.into_iter().chain([lexical]))
}
