//! Tests packages pinned by digest: each is fetched once, and verified at every use.

#[expect(dead_code, reason = "each test binary uses its own part")]
mod support;

use pijs_packages::{InstallCode, PinnedPackage, TarballCache};
use pijs_testkit::registry::{Registry, integrity, pack};
use serde_json::json;
use std::path::Path;
use support::npm;

/// Publishes a package, and returns its pin.
fn publish(registry: &Registry, name: &str) -> PinnedPackage {
    let manifest = json!({"name": name, "version": "1.2.3"});
    let files = [
        ("package.json".to_owned(), serde_json::to_vec(&manifest).expect("json")),
        ("index.js".to_owned(), b"export const a = 1;\n".to_vec()),
    ];
    let tarball = pack(&files.into_iter().collect());
    registry.publish_tarball(&manifest, &tarball, |_| {});
    PinnedPackage { name: name.to_owned(), version: "1.2.3".to_owned(), integrity: integrity(&tarball) }
}

fn text(folder: &Path, name: &str) -> String {
    std::fs::read_to_string(folder.join("node_modules").join(name).join("index.js")).expect("unpacked")
}

#[tokio::test]
async fn a_package_is_fetched_once_and_unpacked_each_time() {
    let registry = Registry::start();
    let pinned = [publish(&registry, "plain"), publish(&registry, "@scope/scoped")];
    let kept = tempfile::tempdir().expect("a folder");
    let depot = TarballCache::open(kept.path(), npm(&registry)).expect("a depot");
    for _ in 0..2 {
        let folder = tempfile::tempdir().expect("a folder");
        depot.unpack(&pinned, folder.path()).await.expect("fetched");
        assert_eq!(text(folder.path(), "plain"), "export const a = 1;\n");
        assert_eq!(text(folder.path(), "@scope/scoped"), "export const a = 1;\n");
    }
    assert_eq!(registry.requests().len(), 2, "{:?}", registry.requests());
}

#[tokio::test]
async fn only_accepted_files_are_unpacked() {
    let registry = Registry::start();
    let pinned = [publish(&registry, "plain")];
    let (kept, folder) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    let depot = TarballCache::open(kept.path(), npm(&registry)).expect("a depot");
    depot.only(|path| path.ends_with(".json")).unpack(&pinned, folder.path()).await.expect("fetched");
    let package = folder.path().join("node_modules/plain");
    let names = std::fs::read_dir(package).expect("unpacked").map(|entry| entry.expect("an entry").file_name());
    assert_eq!(names.collect::<Vec<_>>(), ["package.json"]);
}

#[tokio::test]
async fn an_embedded_tarball_is_not_fetched_but_verified() {
    let registry = Registry::start();
    let pinned = [publish(&registry, "@scope/scoped")];
    let kept = tempfile::tempdir().expect("a folder");
    let tarball: &'static [u8] = TarballCache::open(kept.path(), npm(&registry))
        .expect("a depot")
        .tarball(&pinned[0])
        .await
        .expect("fetched")
        .leak();
    for (carried, requests) in [(tarball, 1), (&tarball[1..], 2)] {
        let elsewhere = tempfile::tempdir().expect("a folder");
        let depot = TarballCache::open(elsewhere.path(), npm(&registry)).expect("a depot");
        let depot = depot.carrying([("@scope+scoped@1.2.3.tgz", carried)]);
        assert!(depot.holds(&pinned[0]));
        let folder = tempfile::tempdir().expect("a folder");
        depot.unpack(&pinned, folder.path()).await.expect("the package is unpacked");
        assert_eq!(text(folder.path(), "@scope/scoped"), "export const a = 1;\n");
        assert_eq!(registry.requests().len(), requests, "{:?}", registry.requests());
    }
}

#[tokio::test]
async fn a_kept_tarball_that_was_changed_is_fetched_again() {
    let registry = Registry::start();
    let pinned = [publish(&registry, "plain")];
    let kept = tempfile::tempdir().expect("a folder");
    let depot = TarballCache::open(kept.path(), npm(&registry)).expect("a depot");
    depot.unpack(&pinned, tempfile::tempdir().expect("a folder").path()).await.expect("fetched");
    std::fs::write(kept.path().join("plain@1.2.3.tgz"), "something else").expect("written");
    let folder = tempfile::tempdir().expect("a folder");
    depot.unpack(&pinned, folder.path()).await.expect("fetched");
    assert_eq!(text(folder.path(), "plain"), "export const a = 1;\n");
    assert_eq!(registry.requests().len(), 2);
}

#[tokio::test]
async fn cached_packages_are_unpacked_without_requests_or_not_at_all() {
    let registry = Registry::start();
    let pinned = [publish(&registry, "plain"), publish(&registry, "other")];
    let kept = tempfile::tempdir().expect("a folder");
    let depot = TarballCache::open(kept.path(), npm(&registry)).expect("a depot");
    depot.tarball(&pinned[0]).await.expect("fetched");
    let folder = tempfile::tempdir().expect("a folder");
    assert!(!depot.unpack_cached(&pinned, folder.path()).expect("`other` is absent"));
    assert!(!folder.path().join("node_modules").exists());
    assert!(depot.unpack_cached(&pinned[..1], folder.path()).expect("`plain` is cached"));
    assert_eq!(text(folder.path(), "plain"), "export const a = 1;\n");
    std::fs::write(kept.path().join("plain@1.2.3.tgz"), "something else").expect("written");
    assert!(!depot.unpack_cached(&pinned[..1], folder.path()).expect("other bytes are not cached ones"));
    assert_eq!(registry.requests().len(), 1, "{:?}", registry.requests());
}

#[tokio::test]
async fn other_bytes_than_the_pinned_ones_are_refused_and_not_kept() {
    let registry = Registry::start();
    let pinned = PinnedPackage { integrity: integrity(b"what was reviewed"), ..publish(&registry, "plain") };
    let kept = tempfile::tempdir().expect("a folder");
    let folder = tempfile::tempdir().expect("a folder");
    let depot = TarballCache::open(kept.path(), npm(&registry)).expect("a depot");
    let error = depot.unpack(&[pinned], folder.path()).await.expect_err("refused");
    assert_eq!((error.code, error.subject.as_str()), (InstallCode::Integrity, "npm:plain@1.2.3"));
    assert!(!folder.path().join("node_modules").exists());
    assert_eq!(std::fs::read_dir(kept.path()).map_or(0, Iterator::count), 0);
}

#[tokio::test]
async fn a_name_that_leaves_the_folder_is_refused() {
    let registry = Registry::start();
    let pinned = PinnedPackage { name: "../up".to_owned(), ..publish(&registry, "plain") };
    let folder = tempfile::tempdir().expect("a folder");
    let depot = TarballCache::open(folder.path(), npm(&registry)).expect("a depot");
    assert_eq!(depot.unpack(&[pinned], folder.path()).await.expect_err("refused").code, InstallCode::Name);
}
