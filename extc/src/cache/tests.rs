//! Injects every fault at every operation of storing an artifact, and tests cache folders that other users control.

use super::*;
use pijs_artifact::Module;
use pijs_durable::fault::{Case, Density, Work, survey};
use pijs_protocol::artifact::ArtifactMetadata;
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};

struct Store {
    dir: PathBuf,
    artifact: Artifact,
}

const DIGEST: &str = "sha256:00";

impl Store {
    fn cache(&self, disk: &Disk) -> Cache {
        Cache::open(self.dir.join("artifacts"), InstallKey::from_bytes([7; 32])).on(disk.clone())
    }

    fn key() -> Key {
        Key::builder("test").finish()
    }
}

impl Work for Store {
    type Acknowledged = bool;

    fn reset(&mut self) {
        if self.dir.exists() {
            fs::remove_dir_all(&self.dir).expect("our own folder");
        }
        fs::create_dir(&self.dir).expect("a folder");
    }

    fn run(&mut self, disk: &Disk) -> bool {
        self.cache(disk).store_apart(&Self::key(), "path:x", &self.artifact, DIGEST).is_ok()
    }

    fn check(&mut self, acknowledged: bool, case: &Case) {
        let cache = self.cache(&Disk::system());
        // A file under the artifact's final name must be complete.
        if let Ok(bytes) = fs::read(cache.file(&Self::key(), "artifact")) {
            assert_eq!(bytes, encode(&self.artifact.clone().into_code()), "{}", case.name);
        }
        match cache.load_apart(&Self::key(), "path:x") {
            Some(hit) => {
                assert_eq!(
                    (hit.artifact.whole().as_ref(), hit.digest.as_str()),
                    (Some(&self.artifact), DIGEST),
                    "{}",
                    case.name
                );
            }
            None => assert!(!acknowledged, "{}: said stored, and it is not", case.name),
        }
        let next = Key::builder("the next source").finish();
        cache
            .store_apart(&next, "path:x", &self.artifact, DIGEST)
            .unwrap_or_else(|error| panic!("{}: {error}", case.name));
        let names = fs::read_dir(self.dir.join("artifacts")).expect("a cache").flatten().map(|entry| entry.file_name());
        let left: Vec<_> = names.filter(|name| name.to_string_lossy().ends_with(".tmp")).collect();
        assert!(left.is_empty(), "{}: {left:?}", case.name);
        assert!(self.run(&Disk::system()), "{}", case.name);
        assert!(cache.load_apart(&Self::key(), "path:x").is_some(), "{}", case.name);
    }
}

fn artifact() -> Artifact {
    let metadata = ArtifactMetadata {
        cache_key: "sha256:00".to_owned(),
        ..ArtifactMetadata::new("sample", "1.2.3", pijs_engine::engine_build())
    };
    let module = Module {
        specifier: "ext:/0/index.js".to_owned(),
        source: "export default 1;".to_owned(),
        source_map: Some("{}".to_owned()),
        bytecode: Some(vec![1, 2, 3].into()),
    };
    Artifact { metadata, modules: vec![module] }
}

#[test]
#[expect(clippy::print_stdout, reason = "the counts are what a reader of the test wants to know")]
fn an_artifact_is_absent_or_whole_whatever_fails() {
    let folder = tempfile::tempdir().expect("a folder");
    let dir = folder.path().join("cache");
    let mut work = Store { dir: dir.clone(), artifact: artifact() };
    let done = survey(&dir, Density::ALL, &mut work).expect("a folder of our own");
    println!("build: {0}/{0} kills, {1}/{1} power cuts, {2}/{2} errors survived", done.kills, done.cuts, done.errors);
    assert!(done.kills >= 12 && done.errors >= 60, "{done:?}");
}

#[test]
fn a_cache_that_others_can_write_is_left_for_a_private_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let disk = Disk::system();
    let (first, fallback) = (folder.path().join("cache/pijs"), folder.path().join("agent/pijs/cache"));
    let open = || Cache::at_first(vec![first.clone(), fallback.clone()], &disk).expect("a cache");
    let cache = open();
    assert_eq!((cache.dir(), cache.notice()), (first.join("artifacts").as_path(), None));
    for (what, bits, says) in [(&first, 0o770, "by others"), (&first.join("artifacts"), 0o702, "by others")] {
        fs::set_permissions(what, Permissions::from_mode(bits)).expect("permissions");
        let cache = open();
        assert_eq!(cache.dir(), fallback.join("artifacts"));
        let notice = cache.notice().expect("a notice");
        assert!(notice.contains(says) && notice.contains(&what.display().to_string()), "{notice}");
        fs::set_permissions(what, Permissions::from_mode(0o700)).expect("permissions");
    }
    assert_eq!(open().notice(), None);
    fs::rename(&first, folder.path().join("elsewhere")).expect("moved");
    symlink(folder.path().join("elsewhere"), &first).expect("a link");
    assert!(open().notice().expect("a notice").contains("symbolic link"));
    fs::set_permissions(&fallback, Permissions::from_mode(0o777)).expect("permissions");
    Cache::at_first(vec![first, fallback], &disk).expect_err("no place is left");
}
