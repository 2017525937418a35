//! Equal inputs give equal bytes, and the cache never loads an artifact that another installation made.
//!
//! Each test builds a package of the files below in its own folder, and also runs each rebuilt artifact.

#[path = "support/files.rs"]
mod files;
mod support;

use files::write_package;
use pijs_artifact::{InstallKey, decode, encode, sign};
use pijs_extc::{BuildOptions, BuildOutput, Cache, Code, Input, build};
use pijs_protocol::artifact::EngineBuild;
use std::fs;
use std::path::{Path, PathBuf};
use support::{Ran, run};
use tempfile::TempDir;

/// Two entries; a shared file, a chunk, JSON, a CommonJS and an ES module dependency, and all TypeScript syntax that
/// is compiled rather than removed.
const FILES: &[(&str, &str)] = &[
    ("package.json", r#"{ "name": "sample", "version": "1.0.0", "pi": { "extensions": ["b.ts", "a.ts"] } }"#),
    ("a.ts", "import { next } from './shared';\nconsole.log('a', next());\nexport default () => {};\n"),
    (
        "b.ts",
        "import { next, Level } from './shared';\nimport words from './data.json';\nimport old from 'old';\n\
         import { fresh } from 'fresh';\nimport { absent } from 'node:path';\nconst later = await import('./later.js');\n\
         console.log('b', next(), Level[1], words.length, old(), fresh, later.name, absent);\nexport default () => {};\n",
    ),
    ("shared.ts", "export enum Level { Low, High }\nlet count = 0;\nexport const next = () => ++count;\n"),
    ("later.ts", "export const name: string = 'later';\n"),
    ("data.json", "[1, 2]\n"),
    ("node_modules/old/package.json", r#"{ "name": "old", "version": "1.0.0", "main": "one.js" }"#),
    ("node_modules/old/one.js", "module.exports = () => 'old one';\n"),
    ("node_modules/old/two.js", "module.exports = () => 'old two';\n"),
    ("node_modules/fresh/package.json", r#"{ "name": "fresh", "version": "1.0.0", "type": "module" }"#),
    ("node_modules/fresh/index.js", "export const fresh = 'fresh';\n"),
];

const PRINTS: [&str; 2] = ["b 1 High 2 old one fresh later undefined", "a 1"];

/// A package in a temporary folder, and a cache beside it.
struct Lab {
    folder: TempDir,
}

impl Lab {
    fn new() -> Self {
        let lab = Self { folder: TempDir::new().expect("a temporary folder") };
        write_package(&lab.package(), FILES.iter());
        lab
    }

    fn package(&self) -> PathBuf {
        self.folder.path().join("package")
    }

    fn cache_dir(&self) -> PathBuf {
        self.folder.path().join("cache")
    }

    fn options(&self) -> BuildOptions {
        BuildOptions { cache: Some(Cache::open(self.cache_dir(), key())), ..BuildOptions::default() }
    }

    fn build(&self) -> BuildOutput {
        build_at(&self.package(), &self.options())
    }

    fn write(&self, file: &str, text: &str) {
        fs::write(self.package().join(file), text).expect("the file can be written");
    }

    /// Returns the cache's files with this suffix, sorted.
    fn cached(&self, suffix: &str) -> Vec<PathBuf> {
        let mut files: Vec<PathBuf> = fs::read_dir(self.cache_dir())
            .expect("there is a cache")
            .map(|entry| entry.expect("a readable folder").path())
            .filter(|path| path.extension().is_some_and(|extension| extension == suffix))
            .collect();
        files.sort();
        files
    }

    fn the_cached(&self, suffix: &str) -> PathBuf {
        let files = self.cached(suffix);
        assert_eq!(files.len(), 1, "{files:?}");
        files.into_iter().next().expect("there is one")
    }
}

fn key() -> InstallKey {
    InstallKey::from_bytes([7; 32])
}

fn build_at(package: &Path, options: &BuildOptions) -> BuildOutput {
    let input = Input::at(package).with_dependencies(Vec::new());
    build(&input, options).unwrap_or_else(|failure| panic!("{}", failure.render(false)))
}

#[track_caller]
fn assert_runs(built: BuildOutput, root: &Path, prints: &[&str]) {
    let lines = prints.iter().map(|&line| line.to_owned()).collect();
    assert_eq!(run(built.artifact, root, &[]), Ran { lines, failures: Vec::new() });
}

#[test]
fn the_same_package_gives_the_same_bytes_wherever_and_however_it_was_written() {
    let folder = TempDir::new().unwrap();
    let (one, other) = (folder.path().join("one"), folder.path().join("a much longer name/deep/other"));
    write_package(&one, FILES.iter());
    write_package(&other, FILES.iter().rev());
    let first = build_at(&one, &BuildOptions::default());
    let second = build_at(&other, &BuildOptions::default());
    assert_eq!(first.metadata(), second.metadata());
    assert!(first.encoded().unwrap() == second.encoded().unwrap(), "same metadata, other bytes");
    let bytes = first.encoded().unwrap();
    let text = String::from_utf8_lossy(&bytes);
    assert!(!text.contains("much longer") && !text.contains(folder.path().to_str().unwrap()), "a path leaked");
    assert_runs(second, &other, &PRINTS);
}

#[test]
fn a_warm_cache_gives_the_bytes_of_a_cold_one() {
    let lab = Lab::new();
    let uncached = build_at(&lab.package(), &BuildOptions::default());
    let (cold, warm) = (lab.build(), lab.build());
    assert_eq!((uncached.cached, cold.cached, warm.cached), (false, false, true));
    assert!(
        uncached.encoded().unwrap() == cold.encoded().unwrap() && cold.encoded().unwrap() == warm.encoded().unwrap()
    );
    let remarks = |built: &BuildOutput| {
        built.diagnostics.iter().map(|remark| (remark.place().cloned(), remark.code())).collect::<Vec<_>>()
    };
    assert_eq!(remarks(&cold), remarks(&warm));
    assert!(!remarks(&warm).is_empty(), "the sample has something to remark");
    assert_runs(warm, &lab.package(), &PRINTS);
}

#[test]
fn one_changed_byte_of_anything_in_the_cache_is_refused_and_rebuilt() {
    let lab = Lab::new();
    let good = lab.build().encoded().unwrap();
    for suffix in ["artifact", "mac", "json"] {
        let path = lab.the_cached(suffix);
        let length = fs::metadata(&path).unwrap().len() as usize;
        for at in [0, length / 3, length / 2, length - 1] {
            let mut bytes = fs::read(&path).unwrap();
            bytes[at] ^= 1;
            fs::write(&path, bytes).unwrap();
            let rebuilt = lab.build();
            assert!(!rebuilt.cached, "byte {at} of {suffix} was changed and taken");
            assert!(rebuilt.encoded().unwrap() == good);
            let again = lab.build();
            assert!(again.cached, "the rebuilt one was not stored over byte {at} of {suffix}");
            assert!(again.encoded().unwrap() == good);
        }
    }
    assert_runs(lab.build(), &lab.package(), &PRINTS);
}

#[test]
fn sources_are_read_on_first_use_and_rebuilt_if_changed() {
    let lab = Lab::new();
    let good = lab.build();
    let text = |built: &BuildOutput| built.artifact.source("ext:/0/index.js").map(str::to_owned);
    let path = lab.the_cached("texts");
    assert!(text(&good).is_some());
    let whole = fs::read(&path).unwrap();
    for at in [0, whole.len() / 2, whole.len() - 1] {
        let mut bytes = whole.clone();
        bytes[at] ^= 1;
        fs::write(&path, bytes).unwrap();
        let built = lab.build();
        assert!(built.cached && built.artifact.artifact().modules.iter().all(|module| module.source.is_empty()));
        assert_eq!((text(&built), built.encoded().is_ok()), (None, false), "byte {at} was changed and taken");
        assert_eq!(text(&lab.build()), text(&good));
        assert!(fs::read(&path).unwrap() == whole, "they were not made anew");
    }
    // The files are authentic, but belong to another artifact.
    lab.write("later.ts", "export const name: string = 'other';\n");
    lab.build();
    let other = lab.cached("texts").into_iter().find(|file| *file != path).unwrap();
    fs::copy(other, &path).unwrap();
    lab.write("later.ts", "export const name: string = 'later';\n");
    lab.build();
    fs::copy(lab.cached("texts").into_iter().find(|file| *file != path).unwrap(), &path).unwrap();
    assert_eq!(text(&lab.build()), None);
}

#[test]
fn an_artifact_that_lost_a_part_of_its_files_is_rebuilt() {
    let lab = Lab::new();
    lab.build();
    for suffix in ["artifact", "texts", "mac", "json"] {
        fs::remove_file(lab.the_cached(suffix)).unwrap();
        assert!(!lab.build().cached, "without {suffix}");
        assert!(lab.build().cached);
    }
    let path = lab.the_cached("artifact");
    fs::write(&path, &fs::read(&path).unwrap()[..100]).unwrap();
    assert!(!lab.build().cached, "cut short");
}

#[test]
fn another_engine_build_is_rebuilt_even_when_this_installation_signed_it() {
    let lab = Lab::new();
    let good = lab.build();
    let path = lab.the_cached("artifact");
    let mut artifact = decode(&good.encoded().unwrap()).unwrap();
    artifact.metadata.engine.version.push_str("-next");
    let other = artifact.metadata.engine.clone();
    let bytes = encode(&artifact);
    let digest = good.metadata().artifact;
    let id = format!("extension:sha256:{} of {digest}", path.file_stem().unwrap().to_str().unwrap());
    let sign = |bytes: &[u8], engine: &EngineBuild| {
        [sign(&key(), bytes, engine, &id).as_bytes().as_slice(), digest.as_bytes()].concat()
    };
    for engine in [&other, &good.metadata().engine] {
        fs::write(&path, &bytes).unwrap();
        fs::write(path.with_extension("mac"), sign(&bytes, engine)).unwrap();
        let rebuilt = lab.build();
        assert!(!rebuilt.cached, "signed for {engine}");
        assert!(rebuilt.encoded().unwrap() == good.encoded().unwrap());
    }
    // The forgery is valid except for the engine: with the right engine it would be loaded.
    fs::write(&path, good.encoded().unwrap()).unwrap();
    fs::write(path.with_extension("mac"), sign(&good.encoded().unwrap(), &good.metadata().engine)).unwrap();
    assert!(lab.build().cached);
}

#[test]
fn another_installation_does_not_share() {
    let lab = Lab::new();
    lab.build();
    let stranger = Cache::open(lab.cache_dir(), InstallKey::from_bytes([8; 32]));
    let options = BuildOptions { cache: Some(stranger), ..BuildOptions::default() };
    assert!(!build_at(&lab.package(), &options).cached);
}

#[test]
fn an_unwritable_cache_is_a_remark_not_a_failure() {
    let lab = Lab::new();
    fs::write(lab.cache_dir(), "a file where the folder should be").unwrap();
    for _ in 0..2 {
        let built = lab.build();
        assert!(!built.cached);
        assert!(built.diagnostics.iter().any(|remark| remark.code() == Code::Cache), "{:?}", built.diagnostics);
        assert_runs(built, &lab.package(), &PRINTS);
    }
}

#[test]
fn concurrent_builds_leave_one_valid_artifact() {
    let lab = Lab::new();
    let all: Vec<Vec<u8>> = std::thread::scope(|scope| {
        let builds: Vec<_> = (0..4).map(|_| scope.spawn(|| lab.build().encoded().unwrap())).collect();
        builds.into_iter().map(|build| build.join().expect("a build panicked")).collect()
    });
    assert!(all.iter().all(|bytes| *bytes == all[0]));
    let after = lab.build();
    assert!(after.cached && after.encoded().unwrap() == all[0]);
    let left: usize =
        ["artifact", "texts", "mac", "json", "stamps"].into_iter().map(|suffix| lab.cached(suffix).len()).sum();
    assert_eq!(left, fs::read_dir(lab.cache_dir()).unwrap().count(), "a temporary file stayed behind");
    assert_runs(after, &lab.package(), &PRINTS);
}

#[test]
fn an_import_that_resolves_differently_is_rebuilt() {
    let lab = Lab::new();
    lab.build();

    lab.write("later.ts", "export const name: string = 'changed';\n");
    let changed = lab.build();
    assert!(!changed.cached);
    assert_runs(changed, &lab.package(), &["b 1 High 2 old one fresh changed undefined", "a 1"]);

    // The files are unchanged, but the manifest selects the other one.
    lab.write("node_modules/old/package.json", r#"{ "name": "old", "version": "1.0.0", "main": "two.js" }"#);
    let moved = lab.build();
    assert!(!moved.cached, "the manifest of a dependency was not looked at");
    assert_runs(moved, &lab.package(), &["b 1 High 2 old two fresh changed undefined", "a 1"]);

    // This file takes precedence over `later.ts`.
    lab.write("later.js", "export const name = 'beside';\n");
    assert_runs(lab.build(), &lab.package(), &["b 1 High 2 old two fresh beside undefined", "a 1"]);

    assert!(lab.build().cached, "nothing changed");
    lab.write("package.json", r#"{ "name": "sample", "version": "1.0.0", "pi": { "extensions": ["a.ts"] } }"#);
    assert_runs(lab.build(), &lab.package(), &["a 1"]);
}

#[test]
fn settings_and_selected_entries_have_separate_artifacts() {
    let lab = Lab::new();
    lab.build();
    let minified = BuildOptions { minify: true, ..lab.options() };
    assert!(!build_at(&lab.package(), &minified).cached);
    assert!(build_at(&lab.package(), &minified).cached);

    let chosen = |entries: &[&str]| {
        let entries = entries.iter().map(PathBuf::from).collect();
        let input = Input::at(lab.package()).with_dependencies(Vec::new()).with_entries(entries);
        build(&input, &lab.options()).unwrap()
    };
    let turned = chosen(&["a.ts", "b.ts"]);
    assert!(!turned.cached);
    assert_runs(turned, &lab.package(), &[PRINTS[1], PRINTS[0]]);
    assert!(chosen(&["a.ts", "b.ts"]).cached && lab.build().cached);
    // The order that the manifest lists gives the same request.
    assert!(chosen(&["b.ts", "a.ts"]).cached);
}

/// Waits until the file system's clock gives new changes a later time than every file below the lab.
#[cfg(unix)]
fn wait_for_later_times(lab: &Lab) {
    use std::os::unix::fs::MetadataExt as _;
    let time = |found: &fs::Metadata| (found.ctime(), found.ctime_nsec());
    let begin = time(&tempfile::tempfile_in(lab.folder.path()).unwrap().metadata().unwrap());
    while time(&tempfile::tempfile_in(lab.folder.path()).unwrap().metadata().unwrap()) <= begin {}
}

/// Builds once with distinct times, so that all inputs are stamped.
#[cfg(unix)]
fn stamped() -> Lab {
    let lab = Lab::new();
    wait_for_later_times(&lab);
    lab.build();
    let again = lab.build();
    assert_eq!((again.cached, again.read), (true, 0));
    lab
}

#[test]
#[cfg(unix)]
fn stamped_files_are_not_read() {
    let lab = stamped();
    assert_runs(lab.build(), &lab.package(), &PRINTS);
}

#[test]
#[cfg(unix)]
fn a_file_of_the_same_size_and_time_is_noticed_by_its_change() {
    let lab = stamped();
    let file = lab.package().join("later.ts");
    let before = fs::metadata(&file).unwrap();
    lab.write("later.ts", "export const name: string = 'LATER';\n");
    fs::File::options().write(true).open(&file).unwrap().set_modified(before.modified().unwrap()).unwrap();
    let after = fs::metadata(&file).unwrap();
    assert_eq!((before.len(), before.modified().unwrap()), (after.len(), after.modified().unwrap()));
    let built = lab.build();
    assert!(!built.cached);
    assert_runs(built, &lab.package(), &["b 1 High 2 old one fresh LATER undefined", "a 1"]);
}

#[test]
#[cfg(unix)]
fn a_touched_file_is_read_once() {
    let lab = stamped();
    let file = lab.package().join("shared.ts");
    fs::File::options().write(true).open(&file).unwrap().set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
    wait_for_later_times(&lab);
    let touched = lab.build();
    assert_eq!((touched.cached, touched.read), (true, 1));
    let again = lab.build();
    assert_eq!((again.cached, again.read), (true, 0));
}

#[test]
#[cfg(unix)]
fn a_file_that_changed_a_moment_ago_is_read_again() {
    let lab = stamped();
    // Files written after this have the time of the stamping, or a later one.
    let file = lab.package().join("later.ts");
    let text = fs::read(&file).unwrap();
    let ahead = std::time::SystemTime::now() + std::time::Duration::from_secs(1_000);
    fs::write(&file, text).unwrap();
    fs::File::options().write(true).open(&file).unwrap().set_modified(ahead).unwrap();
    for _ in 0..3 {
        let built = lab.build();
        assert_eq!((built.cached, built.read), (true, 1), "a time to come tells nothing");
    }
}

#[test]
#[cfg(unix)]
fn a_changed_or_newly_shadowing_dependency_is_noticed() {
    let lab = stamped();
    lab.write("node_modules/old/one.js", "module.exports = () => 'old 111';\n");
    assert_runs(lab.build(), &lab.package(), &["b 1 High 2 old 111 fresh later undefined", "a 1"]);
    wait_for_later_times(&lab);
    lab.build();
    lab.write("later.js", "export const name = 'beside';\n");
    let shadowed = lab.build();
    assert!(!shadowed.cached);
    assert_runs(shadowed, &lab.package(), &["b 1 High 2 old 111 fresh beside undefined", "a 1"]);
}

#[test]
#[cfg(unix)]
fn a_file_swapped_between_check_and_load_is_noticed_by_the_next_build() {
    let lab = stamped();
    let checked = lab.build();
    assert_eq!((checked.cached, checked.read), (true, 0));
    let (file, other) = (lab.package().join("later.ts"), lab.folder.path().join("other.ts"));
    fs::write(&other, "export const name: string = 'other';\n").unwrap();
    fs::rename(&other, &file).unwrap();
    assert_runs(checked, &lab.package(), &PRINTS);
    let next = lab.build();
    assert!(!next.cached);
    assert_runs(next, &lab.package(), &["b 1 High 2 old one fresh other undefined", "a 1"]);
}

#[test]
#[cfg(unix)]
fn a_cache_file_swapped_after_its_check_is_not_loaded() {
    let lab = stamped();
    let code = lab.the_cached("artifact");
    let checked = lab.build();
    // Changes the bytes of a file that was read.
    let bytes = fs::read(&code).unwrap();
    let changed: Vec<u8> = bytes.iter().map(|byte| !byte).collect();
    fs::write(&code, &changed).unwrap();
    assert_runs(checked, &lab.package(), &PRINTS);
    let next = lab.build();
    assert!(!next.cached, "what is not authentic is made anew");
    assert_runs(next, &lab.package(), &PRINTS);
}

#[test]
#[cfg(unix)]
fn a_replaced_folder_is_noticed() {
    let lab = stamped();
    let (old, kept) = (lab.package().join("node_modules/old"), lab.folder.path().join("kept"));
    fs::rename(&old, &kept).unwrap();
    std::os::unix::fs::symlink(&kept, &old).unwrap();
    assert!(!lab.build().cached, "a link in place of a folder");
    fs::remove_file(&old).unwrap();
    fs::create_dir(&old).unwrap();
    for name in ["package.json", "one.js"] {
        fs::copy(kept.join(name), old.join(name)).unwrap();
    }
    lab.build();
    fs::write(old.join("one.js"), "module.exports = () => 'old new';\n").unwrap();
    assert_runs(lab.build(), &lab.package(), &["b 1 High 2 old new fresh later undefined", "a 1"]);
}

#[test]
#[cfg(unix)]
fn changed_or_outdated_stamps_are_not_trusted() {
    let lab = stamped();
    let stamps = lab.the_cached("stamps");
    let ours = fs::read(&stamps).unwrap();
    for at in [0, 31, 32, ours.len() / 2, ours.len() - 1] {
        let mut bytes = ours.clone();
        bytes[at] ^= 1;
        fs::write(&stamps, bytes).unwrap();
        let built = lab.build();
        assert!(built.cached && built.read > 0, "byte {at} was changed and taken");
        assert_eq!(lab.build().read, 0, "the stamps were not made anew");
    }
    // Restores the times of the earlier content.
    lab.write("later.ts", "export const name: string = 'LATER';\n");
    wait_for_later_times(&lab);
    lab.build();
    fs::write(&stamps, ours).unwrap();
    assert_runs(lab.build(), &lab.package(), &["b 1 High 2 old one fresh LATER undefined", "a 1"]);
}

/// Writes a lock file that lists the sample unchanged.
#[cfg(unix)]
fn lock(lab: &Lab, tree: &str) -> PathBuf {
    let file = lab.folder.path().join("pijs-lock.json");
    let manifest =
        hex::encode(<sha2::Sha256 as sha2::Digest>::digest(fs::read(lab.package().join("package.json")).unwrap()));
    let package = r#"{ "name": "sample", "version": "1.0.0", "tarball": "sample.tgz", "integrity": "sha512-x" }"#;
    let entry = format!(
        r#"{{ "source": "npm:sample", "version": "1.0.0", "manifest": "{manifest}", "tree": "{tree}", "packages": {{ "": {package} }} }}"#
    );
    let text = format!(r#"{{ "lockfileVersion": 1, "registries": {{}}, "packages": {{ "npm:sample": {entry} }} }}"#);
    fs::write(&file, text).unwrap();
    file
}

#[test]
#[cfg(unix)]
fn a_lock_file_vouches_for_dependencies_until_it_changes() {
    let lab = Lab::new();
    let file = lock(&lab, "1");
    wait_for_later_times(&lab);
    let build = |identity: &str| {
        let input = Input::at(lab.package()).with_dependencies(Vec::new()).locked(&file, identity);
        build(&input, &lab.options()).unwrap_or_else(|failure| panic!("{}", failure.render(false)))
    };
    build("npm:sample");
    assert_eq!(build("npm:sample").read, 0);
    // Simulates a change outside of an installation: the artifact of the installed version stays.
    lab.write("node_modules/old/one.js", "module.exports = () => 'old 111';\n");
    let trusted = build("npm:sample");
    assert_eq!((trusted.cached, trusted.read), (true, 0));
    assert_runs(trusted, &lab.package(), &PRINTS);
    // The package's own files are checked nevertheless.
    lab.write("later.ts", "export const name: string = 'LATER';\n");
    assert_runs(build("npm:sample"), &lab.package(), &["b 1 High 2 old 111 fresh LATER undefined", "a 1"]);
    wait_for_later_times(&lab);
    build("npm:sample");
    // With another lock file, all inputs are read.
    lab.write("node_modules/old/one.js", "module.exports = () => 'old 222';\n");
    lock(&lab, "2");
    let changed = build("npm:sample");
    assert!(!changed.cached);
    assert_runs(changed, &lab.package(), &["b 1 High 2 old 222 fresh LATER undefined", "a 1"]);
    // Simulates another installer, which replaces a dependency as a whole.
    wait_for_later_times(&lab);
    build("npm:sample");
    let folder = lab.package().join("node_modules/old");
    fs::rename(&folder, lab.folder.path().join("aside")).unwrap();
    fs::create_dir(&folder).unwrap();
    lab.write("node_modules/old/package.json", r#"{ "name": "old", "version": "2.0.0", "main": "one.js" }"#);
    lab.write("node_modules/old/one.js", "module.exports = () => 'old 333';\n");
    assert_runs(build("npm:sample"), &lab.package(), &["b 1 High 2 old 333 fresh LATER undefined", "a 1"]);
}

#[test]
#[cfg(unix)]
fn a_lock_file_vouches_only_for_the_package_it_lists() {
    let lab = Lab::new();
    let file = lock(&lab, "1");
    wait_for_later_times(&lab);
    let build = || {
        let input = Input::at(lab.package()).with_dependencies(Vec::new()).locked(&file, "npm:other");
        build(&input, &lab.options()).unwrap_or_else(|failure| panic!("{}", failure.render(false)))
    };
    build();
    assert_eq!(build().read, 0);
    lab.write("node_modules/old/one.js", "module.exports = () => 'old 111';\n");
    assert_runs(build(), &lab.package(), &["b 1 High 2 old 111 fresh later undefined", "a 1"]);
}
