//! Requests of a compromised compiler for paths that no import leads to.

use super::*;
use pijs_hostcall::Places;
use std::fs;
use std::os::unix::fs::symlink;

struct Home {
    folder: tempfile::TempDir,
}

impl Home {
    fn new() -> Self {
        let home = Self { folder: tempfile::tempdir().expect("a folder") };
        home.write(".pi/agent/auth.json", "{}");
        home.write("x.ts", "export default 1;\n");
        home
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().canonicalize().expect("there").join(name)
    }

    fn write(&self, name: &str, text: &str) {
        fs::create_dir_all(self.at(name).parent().expect("a folder")).expect("made");
        fs::write(self.at(name), text).expect("written");
    }

    /// Opens the tree of the loose file in the home.
    fn tree(&self) -> SourceTree {
        let places = Places::new(self.at("project"), self.at("."), self.at(".pi/agent"), self.at("tmp"));
        let access = FileAccess::new(places).readable(|_| true);
        let folders = Folders { package: self.at("."), dependencies: Vec::new(), loose: Some(self.at("x.ts")) };
        SourceTree::open(folders, &access, Limits::default()).expect("a tree")
    }
}

#[test]
fn a_link_is_decided_about_by_where_it_leads() {
    let home = Home::new();
    symlink(".pi/agent/auth.json", home.at("link.json")).expect("made");
    symlink(".pi/agent", home.at("agent")).expect("made");
    symlink(".pi/agent/auth.json", home.at("package.json")).expect("made");
    symlink("x.ts", home.at("y.ts")).expect("made");
    let tree = home.tree();
    for path in [".pi/agent/auth.json", "link.json", "agent/auth.json", "package.json"] {
        let failure = tree.read(&home.at(path)).expect_err(path);
        assert_eq!(failure.code(), Code::Escape, "{path}: {failure}");
        assert_eq!(tree.digest(&home.at(path)), None, "{path}");
    }
    assert_eq!(tree.manifest(&home.at("package.json")), None);
    assert_eq!(tree.evidence().get(&home.at(".pi/agent/auth.json")), Some(&FileEvidence::Refused));
    assert!(tree.read(&home.at("y.ts")).is_ok());
}

#[test]
fn devices_and_kernel_files_are_not_read() {
    let home = Home::new();
    let tree = home.tree();
    for path in ["/proc/self/environ", "/proc/self/root/etc/hostname", "/proc/self/cwd/Cargo.toml", "/dev/zero"] {
        assert!(tree.read(Path::new(path)).is_err(), "{path}");
    }
}

#[test]
fn only_files_that_were_read_or_refused_are_evidence() {
    let home = Home::new();
    home.write("project/lib.ts", "export default 1;\n");
    let tree = home.tree();
    assert!(tree.manifest(&home.at("project/package.json")).is_none());
    assert!(tree.read(&home.at("nothing.ts")).is_err());
    assert!(tree.read(&home.at("x.ts")).is_ok());
    assert!(tree.evidence().is_empty(), "{:?}", tree.evidence());
    home.write("secrets.js", "");
    assert!(tree.read(&home.at("secrets.js")).is_ok());
    assert_eq!(tree.evidence().get(&home.at("secrets.js")), Some(&FileEvidence::Read { secrets: true }));
}
