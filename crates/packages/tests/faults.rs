//! Tests installing, updating and removing with each kind of fault at each operation: a kill, a power cut, a failing or full
//! disk.
//!
//! After each fault the package is complete, in the old or new version, or absent; lock file, settings and folder agree once the
//! next session has started ([`recover`]); staging is empty; the same command then succeeds. The counts are printed;
//! `PIJS_NIGHTLY=1` injects every fault instead of a sample.

#[expect(dead_code, reason = "each test binary uses its own part")]
mod support;

use pijs_durable::Disk;
use pijs_durable::fault::{Case, Density, Work, survey};
use pijs_packages::{InstallScope, recover};
use pijs_testkit::registry::Registry;
use serde_json::{Value, json};
use std::path::Path;
use support::Home;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Task {
    Install,
    Update,
    Remove,
}

struct Packages {
    task: Task,
    /// Registry with 1.0.0 only.
    first: Registry,
    /// Registry with both versions.
    second: Registry,
    home: Home,
    runtime: tokio::runtime::Runtime,
}

impl Packages {
    fn new(task: Task) -> Self {
        let publish = |registry: Registry, versions: &[&str]| {
            registry.publish(json!({"name": "leaf", "version": "1.0.0"}), &[("index.js", "module.exports = 1;\n")]);
            for version in versions {
                let manifest = json!({
                    "name": "steady", "version": version, "pi": {"extensions": ["./index.ts"]},
                    "dependencies": {"leaf": "^1"},
                });
                registry.publish(manifest, &[("index.ts", &format!("export default () => \"{version}\";\n"))]);
            }
            registry
        };
        Self {
            task,
            first: publish(Registry::start(), &["1.0.0"]),
            second: publish(Registry::start(), &["1.0.0", "1.1.0"]),
            home: Home::new(),
            runtime: tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime"),
        }
    }

    fn install(&self, disk: &Disk, registry: &Registry) -> Result<(), pijs_packages::PackageError> {
        let config = support::npm(registry).with_registry(&registry.url()).expect("a registry");
        let installer = self.home.installer_for(config).disk(disk.clone());
        self.runtime.block_on(installer.install("steady@^1", InstallScope::User)).map(drop)
    }

    fn wanted(&self) -> Option<&'static str> {
        match self.task {
            Task::Install => Some("1.0.0"),
            Task::Update => Some("1.1.0"),
            Task::Remove => None,
        }
    }

    /// Returns the version in settings, lock file and folder, and checks that each is complete.
    fn places(&self, case: &Case) -> [Option<String>; 3] {
        let agent = self.home.agent();
        let read = |path: &Path| -> Option<Value> {
            let bytes = std::fs::read(path).ok()?;
            Some(serde_json::from_slice(&bytes).unwrap_or_else(|error| panic!("{}: {path:?}: {error}", case.name)))
        };
        let package = agent.join("npm/node_modules/steady");
        let version = package.exists().then(|| {
            let manifest =
                read(&package.join("package.json")).unwrap_or_else(|| panic!("{}: half a package", case.name));
            let version = manifest["version"].as_str().expect("a version").to_owned();
            let entry = std::fs::read_to_string(package.join("index.ts")).expect("an entry");
            assert!(entry.contains(&version), "{}: {entry} in {version}", case.name);
            assert!(package.join("node_modules/leaf/index.js").is_file(), "{}: half a package", case.name);
            version
        });
        let lock = read(&agent.join("pijs-lock.json"))
            .and_then(|lock| Some(lock["packages"]["npm:steady"]["version"].as_str()?.to_owned()));
        let settings = read(&agent.join("settings.json")).unwrap_or_else(|| panic!("{}: no settings", case.name));
        assert_eq!(settings["theme"], "dark", "{}: what is not ours stays", case.name);
        let packages = settings["packages"].as_array();
        let listed = packages.is_some_and(|list| list.iter().any(|entry| entry.as_str() == Some("npm:steady@^1")));
        [version.clone(), lock, listed.then(|| version.unwrap_or_default())]
    }
}

impl Work for Packages {
    type Acknowledged = bool;

    fn reset(&mut self) {
        let agent = self.home.agent();
        std::fs::remove_dir_all(&agent).expect("our own folder");
        std::fs::create_dir(&agent).expect("a folder");
        std::fs::write(agent.join("settings.json"), "{\"theme\": \"dark\"}\n").expect("settings");
        if self.task != Task::Install {
            self.install(&Disk::system(), &self.first).expect("installed");
        }
    }

    fn run(&mut self, disk: &Disk) -> bool {
        let done = match self.task {
            Task::Install => self.install(disk, &self.first),
            Task::Update => self.install(disk, &self.second),
            Task::Remove => {
                let installer = self.home.installer_for(support::npm(&self.first)).disk(disk.clone());
                installer.remove("npm:steady", InstallScope::User).map(drop)
            }
        };
        if let Err(error) = &done {
            assert!(!error.to_string().is_empty());
        }
        done.is_ok()
    }

    fn check(&mut self, acknowledged: bool, case: &Case) {
        let before = if self.task == Task::Install { None } else { Some("1.0.0") };
        let disk = Disk::system();
        // Simulates the start of a session. A reader sees a complete package even before that.
        self.places(case);
        let problems = recover(&disk, &self.home.dirs(), &[InstallScope::User]);
        assert!(problems.is_empty(), "{}: {problems:?}", case.name);
        let places = self.places(case);
        assert!(places.iter().all(|place| place == &places[0]), "{}: they do not agree: {places:?}", case.name);
        let now = places[0].as_deref();
        assert!(now == before || now == self.wanted(), "{}: {now:?}", case.name);
        assert!(!acknowledged || now == self.wanted(), "{}: said done, and it is not", case.name);
        assert_eq!(self.home.staging(InstallScope::User), 0, "{}: something is left in staging", case.name);

        // A repeated command succeeds without manual repair.
        if now != self.wanted() {
            assert!(self.run(&disk), "{}: the same again failed", case.name);
            assert_eq!(self.places(case)[0].as_deref(), self.wanted(), "{}", case.name);
        }
        assert!(!self.home.agent().join("npm/.pending.json").exists(), "{}", case.name);
    }
}

#[expect(clippy::print_stdout, reason = "the counts are what a reader of the test wants to know")]
fn all(task: Task) {
    let mut work = Packages::new(task);
    let root = work.home.agent();
    let done = survey(&root, Density::nightly_or(11), &mut work).expect("a folder of our own");
    println!(
        "{task:?}: {0}/{0} kills, {1}/{1} power cuts, {2}/{2} errors survived",
        done.kills, done.cuts, done.errors
    );
    assert!(done.kills >= 20 && done.errors >= 30, "{done:?}");
}

#[test]
fn an_install_survives_every_fault() {
    all(Task::Install);
}

#[test]
fn an_update_survives_every_fault() {
    all(Task::Update);
}

#[test]
fn a_removal_survives_every_fault() {
    all(Task::Remove);
}

/// A journal with a path outside of the store is not followed.
#[test]
fn a_journal_that_names_another_folder_is_refused() {
    let home = Home::new();
    let registry = Registry::start();
    let npm = home.agent().join("npm");
    std::fs::create_dir_all(&npm).expect("a folder");
    let victim = home.agent().join("victim");
    std::fs::create_dir(&victim).expect("a folder");
    for staged in [victim.clone(), npm.join(".staging/../../victim"), npm.join("node_modules/x")] {
        let note = json!({
            "identity": "npm:steady", "staged": staged, "manifest": "0", "source": "npm:steady", "listed": null,
            "lockBefore": null, "lockAfter": "{}",
        });
        std::fs::write(npm.join(".pending.json"), note.to_string()).expect("written");
        let problems = recover(&Disk::system(), &home.dirs(), &[InstallScope::User]);
        assert_eq!(problems.len(), 1, "{staged:?}");
        assert!(problems[0].to_string().contains("outside the store"), "{}", problems[0]);
        assert!(home.installer(&registry).remove("npm:steady", InstallScope::User).is_err());
        assert!(victim.exists() && !npm.join("node_modules/steady").exists());
    }
}
