//! Decides which files a build may read: the checks of a run-time read, applied to each file that a build opens.
//!
//! | file | read |
//! |---|---|
//! | protected ([`Places::protection`]) | never |
//! | in the package or a dependency | yes |
//! | code below the folder of a loose file | yes; in a home, not below hidden folders |
//! | data below the folder of a loose file | yes; in a home, or where it may hold secrets, as elsewhere |
//! | elsewhere | not for a package; for a loose file if the extension may read there at run time |
//!
//! A loose file is an extension that consists of a single file, in any folder. Paths are canonical: the tree checks again after
//! it has resolved a link. Decisions are remembered, because the gate counts each as a read and the ledger names it.

use pijs_hostcall::Profile;
use pijs_hostcall::places::{Places, Protection, is_code, may_hold_secrets};
use pijs_protocol::guard;
use std::path::{Component, Path};
use std::sync::Arc;

/// Returns whether an extension may read a file at run time.
type Readable = dyn Fn(&Path) -> bool + Send + Sync;

/// Decides which files a build may read.
///
/// The default knows no home: it admits the package and its dependencies, and refuses everything else.
#[derive(Clone, Default)]
pub struct FileAccess {
    places: Option<Arc<Places>>,
    readable: Option<Arc<Readable>>,
}

impl FileAccess {
    /// Creates the access rules, with these folders protected. Outside of a loose file's folder, only files that every extension
    /// may read without a grant are read.
    pub fn new(places: Places) -> Self {
        Self { places: Some(Arc::new(places)), readable: None }
    }

    /// Replaces the check for files that are not the extension's own: `readable` returns whether the extension may read one.
    #[must_use]
    pub fn readable(mut self, readable: impl Fn(&Path) -> bool + Send + Sync + 'static) -> Self {
        self.readable = Some(Arc::new(readable));
        self
    }

    /// Admits or refuses one file.
    pub(crate) fn judge(&self, read: &BuildRead<'_>) -> Result<Admission, Refusal> {
        let Some(places) = self.places.as_deref() else {
            return if read.area == Area::Elsewhere { Err(Refusal::Outside) } else { Ok(Admission::default()) };
        };
        let own = (read.area != Area::Elsewhere).then_some(read.root);
        if places.protection(read.path, own) == Protection::All && guard!(BuildProtected) {
            return Err(Refusal::Protected);
        }
        let asks = read.needs_question(places);
        if asks && !self.may_read(places, read) && guard!(BuildOutside) {
            return Err(if read.area == Area::Elsewhere { Refusal::Outside } else { Refusal::NotOwn });
        }
        let secrets = may_hold_secrets(&read.path.to_string_lossy()) && !read.is_own_code(places);
        Ok(Admission { asked: asks, secrets })
    }

    fn may_read(&self, places: &Places, read: &BuildRead<'_>) -> bool {
        match (&self.readable, read.loose) {
            (Some(readable), _) => readable(read.path),
            (None, Some(file)) => {
                let own = Profile::new("").loose(file, read.root, None).own_folder(read.path);
                places.reads_freely(read.path, own.as_deref())
            }
            (None, None) => places.reads_freely(read.path, None),
        }
    }
}

impl std::fmt::Debug for FileAccess {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FileAccess").field("places", &self.places).finish_non_exhaustive()
    }
}

/// The location of a file relative to the compiled package.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Area {
    /// In the package, or in the folder of a loose file.
    Package,
    /// In a `node_modules` folder around the package.
    Dependencies,
    /// Outside of the package and of those folders.
    Elsewhere,
}

/// A file that a build wants to read.
#[derive(Debug)]
pub(crate) struct BuildRead<'a> {
    /// Canonical path of the file.
    pub(crate) path: &'a Path,
    pub(crate) area: Area,
    /// The root that contains the file: the package's folder, or a folder of dependencies.
    pub(crate) root: &'a Path,
    /// The extension's file, if it is a loose one.
    pub(crate) loose: Option<&'a Path>,
    /// Whether an import leads to the file, so that the extension gets its contents.
    pub(crate) imported: bool,
}

impl BuildRead<'_> {
    /// Returns whether reading the file requires the permission for a read at run time.
    fn needs_question(&self, places: &Places) -> bool {
        match (self.area, self.loose) {
            (Area::Elsewhere, _) => true,
            (Area::Dependencies, _) | (Area::Package, None) => false,
            (Area::Package, Some(file)) if self.path == file => false,
            // Manifests decide what imports mean. An imported manifest is data like any other file.
            (Area::Package, Some(_)) if is_manifest(self.path) && !self.imported => false,
            (Area::Package, Some(_)) => {
                let in_home = places.home.starts_with(self.root);
                match is_code(self.path) {
                    true => in_home && self.is_below_hidden(),
                    false => in_home || may_hold_secrets(&self.path.to_string_lossy()),
                }
            }
        }
    }

    fn is_below_hidden(&self) -> bool {
        let below = self.path.strip_prefix(self.root).unwrap_or(self.path);
        below.components().any(|part| match part {
            Component::Normal(name) => name.as_encoded_bytes().starts_with(b"."),
            _ => true,
        })
    }

    /// Returns whether the file is code of the extension or of a dependency, which does not hold secrets of the user. In a folder
    /// that contains the project or the home, code may be the user's.
    fn is_own_code(&self, places: &Places) -> bool {
        let is_users = places.home.starts_with(self.root) || places.project.starts_with(self.root);
        is_code(self.path)
            && match (self.area, self.loose) {
                (Area::Elsewhere, _) => false,
                (Area::Dependencies, _) => true,
                (Area::Package, Some(file)) => self.path == file,
                (Area::Package, None) => !is_users,
            }
    }
}

/// The decision to admit a file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Admission {
    /// Whether the file is not the extension's own, so that a permission admits it.
    pub(crate) asked: bool,
    /// Whether the file may hold secrets.
    pub(crate) secrets: bool,
}

/// The reason why a build may not read a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The file is protected; no grant admits it.
    Protected,
    /// The file is outside of the package, or of the folder of a loose file.
    Outside,
    /// The file is next to a loose file, and nothing shows who owns it.
    NotOwn,
}

fn is_manifest(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name == "package.json")
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOME: &str = "/home/me";
    const PROJECT: &str = "/home/me/code/app";

    fn access() -> FileAccess {
        FileAccess::new(Places::new(PROJECT, HOME, "/home/me/.pi/agent", "/tmp"))
    }

    /// Returns the decision on an import of `path` by a loose file at `file`.
    fn loose(file: &str, path: &str) -> Result<Admission, Refusal> {
        let file = Path::new(file);
        let root = file.parent().expect("a folder");
        let (area, root) =
            if Path::new(path).starts_with(root) { (Area::Package, root) } else { (Area::Elsewhere, Path::new("/")) };
        access().judge(&BuildRead { path: Path::new(path), area, root, loose: Some(file), imported: true })
    }

    fn package(root: &str, path: &str) -> Result<Admission, Refusal> {
        let read = BuildRead {
            path: Path::new(path),
            area: Area::Package,
            root: Path::new(root),
            loose: None,
            imported: true,
        };
        access().judge(&read)
    }

    const PLAIN: Result<Admission, Refusal> = Ok(Admission { asked: false, secrets: false });

    #[test]
    fn protected_files_are_never_read() {
        for path in [
            "/home/me/.pi/agent/auth.json",
            "/home/me/.PI/agent/Auth.json",
            "/home/me/.ssh/id_rsa",
            "/home/me/.config/gh/hosts.json",
            "/home/me/.pi/agent/npm/node_modules/x/index.js",
            "/home/me/code/app/.pi/auth.json",
        ] {
            assert_eq!(loose("/home/me/x.ts", path), Err(Refusal::Protected), "{path}");
            assert_eq!(package("/home/me", path), Err(Refusal::Protected), "{path}");
        }
        assert_eq!(loose("/home/me/x.ts", "/proc/self/environ"), Err(Refusal::Protected));
    }

    #[test]
    fn an_installed_package_reads_itself() {
        let root = "/home/me/.pi/agent/npm/node_modules/pi-x";
        assert_eq!(package(root, "/home/me/.pi/agent/npm/node_modules/pi-x/auth.ts"), PLAIN);
        assert_eq!(loose(&format!("{root}/index.ts"), &format!("{root}/lib/a.ts")), PLAIN);
    }

    #[test]
    fn a_home_is_not_the_folder_of_an_extension() {
        for (path, expected) in [
            ("/home/me/three.ts", PLAIN),
            ("/home/me/lib/three.js", PLAIN),
            ("/home/me/package.json", Err(Refusal::NotOwn)),
            ("/home/me/.config/tool/package.json", Err(Refusal::NotOwn)),
            ("/home/me/x.json", Ok(Admission { asked: true, secrets: false })),
            ("/home/me/x/data.json", Ok(Admission { asked: true, secrets: false })),
            ("/home/me/code/app/data.json", Ok(Admission { asked: true, secrets: false })),
            ("/home/me/notes.json", Err(Refusal::NotOwn)),
            ("/home/me/Documents/bank.json", Err(Refusal::NotOwn)),
            ("/home/me/.config/tool/keys.js", Err(Refusal::NotOwn)),
            ("/home/me/.env", Err(Refusal::NotOwn)),
        ] {
            assert_eq!(loose("/home/me/x.ts", path), expected, "{path}");
        }
    }

    #[test]
    fn a_loose_file_reads_elsewhere_only_by_permission() {
        let asked = Ok(Admission { asked: true, secrets: false });
        assert_eq!(loose("/home/me/code/app/.pi/extensions/x.ts", "/home/me/code/app/src/lib.ts"), asked);
        assert_eq!(loose("/home/me/code/other/src/x.ts", "/home/me/code/other/lib/a.ts"), Err(Refusal::Outside));
        assert_eq!(loose("/opt/x.ts", "/etc/hosts.json"), Err(Refusal::Outside));
        let granted = access().readable(|path| path.starts_with("/srv"));
        let read = |path| {
            let (area, root, loose) = (Area::Elsewhere, Path::new("/"), Some(Path::new("/opt/x.ts")));
            granted.judge(&BuildRead { path: Path::new(path), area, root, loose, imported: true })
        };
        assert_eq!(read("/srv/a.ts"), asked);
        assert_eq!(read("/home/me/code/app/a.ts"), Err(Refusal::Outside));
    }

    #[test]
    fn possible_secrets_are_evidence_and_own_code_is_not() {
        let counts = |found: Result<Admission, Refusal>| found.map(|admission| admission.secrets);
        assert_eq!(counts(package("/opt/pkg", "/opt/pkg/src/auth.ts")), Ok(false));
        assert_eq!(counts(package("/opt/pkg", "/opt/pkg/auth.json")), Ok(true));
        assert_eq!(counts(package("/opt/pkg", "/opt/pkg/.env")), Ok(true));
        assert_eq!(counts(package("/opt/pkg", "/opt/pkg/.env.js")), Ok(true));
        assert_eq!(counts(package(PROJECT, "/home/me/code/app/secrets.js")), Ok(true));
        assert_eq!(counts(loose("/home/me/code/app/x.ts", "/home/me/code/app/.env")), Ok(true));
        assert_eq!(counts(loose("/opt/auth.ts", "/opt/auth.ts")), Ok(false));
        assert_eq!(counts(loose("/opt/x.ts", "/opt/secrets.ts")), Ok(true));
        assert_eq!(counts(loose("/opt/x.ts", "/opt/secrets.json")), Err(Refusal::NotOwn));
    }

    #[test]
    fn manifests_are_read_to_resolve_imports() {
        let (path, root, file) = ("/home/me/lib/package.json", Path::new("/home/me"), Path::new("/home/me/x.ts"));
        let read =
            |imported| BuildRead { path: Path::new(path), area: Area::Package, root, loose: Some(file), imported };
        assert_eq!(access().judge(&read(false)), PLAIN);
        assert_eq!(access().judge(&read(true)), Err(Refusal::NotOwn));
    }

    #[test]
    fn without_folders_only_own_files_are_read() {
        let read =
            |area| BuildRead { path: Path::new("/a/b.ts"), area, root: Path::new("/a"), loose: None, imported: true };
        assert_eq!(FileAccess::default().judge(&read(Area::Package)), PLAIN);
        assert_eq!(FileAccess::default().judge(&read(Area::Elsewhere)), Err(Refusal::Outside));
    }
}
