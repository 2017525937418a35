//! Tests that a change to anything that decides how an import resolves invalidates a cached artifact.
//!
//! Each case writes a world, builds its package twice, changes one item that is not a file of the artifact, and builds again. The
//! result has to equal a build without a cache.

#[path = "support/files.rs"]
mod files;
mod support;

use files::write_package;
use pijs_artifact::InstallKey;
use pijs_extc::{BuildOptions, BuildOutput, Cache, Code, Input, build};
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use support::{Ran, run};
use tempfile::TempDir;

/// Files of a world by relative path; a text that starts with `->` is the target of a link.
type Files = &'static [(&'static str, &'static str)];

/// A folder with `mid/package/`, whose dependencies are in the package, in `mid/node_modules/` and in `node_modules/`.
struct World {
    folder: TempDir,
}

impl World {
    fn new(files: Files) -> Self {
        let world = Self { folder: TempDir::new().expect("a temporary folder") };
        world.change(files);
        world
    }

    fn change(&self, files: Files) {
        for (file, text) in files {
            let path = self.folder.path().join(file);
            if path.is_symlink() {
                fs::remove_file(&path).expect("a link of ours");
            }
            match text.strip_prefix("->") {
                Some(target) => {
                    fs::create_dir_all(path.parent().expect("a file is in a folder")).expect("the folder can be made");
                    symlink(target, &path).expect("a link can be made");
                }
                None => write_package(self.folder.path(), [&(*file, *text)]),
            }
        }
    }

    fn root(&self) -> PathBuf {
        self.folder.path().join("mid/package").canonicalize().expect("there is a package")
    }

    fn input(&self) -> Input {
        let beside = ["mid/node_modules", "node_modules"].map(|name| self.folder.path().join(name));
        Input::at(self.root()).with_dependencies(beside.to_vec())
    }

    fn build(&self) -> BuildOutput {
        let cache = Cache::open(self.folder.path().join("cache"), InstallKey::from_bytes([7; 32]));
        let options = BuildOptions { cache: Some(cache), ..BuildOptions::default() };
        build(&self.input(), &options).unwrap_or_else(|failure| panic!("{}", failure.render(false)))
    }

    fn build_uncached(&self) -> BuildOutput {
        build(&self.input(), &BuildOptions::default()).unwrap_or_else(|failure| panic!("{}", failure.render(false)))
    }

    #[track_caller]
    fn prints(&self, built: BuildOutput, line: &str) {
        assert_eq!(run(built.artifact, &self.root(), &[]), Ran { lines: vec![line.to_owned()], failures: Vec::new() });
    }
}

/// Checks the output of a world before and after a change to files.
#[track_caller]
fn decides(files: Files, before: &str, change: Files, after: &str) {
    let world = World::new(files);
    world.prints(world.build(), before);
    assert!(world.build().cached, "nothing changed");
    world.change(change);
    let now = world.build();
    assert!(!now.cached, "an artifact of before was taken");
    assert!(
        now.encoded().unwrap() == world.build_uncached().encoded().unwrap(),
        "another artifact than without a cache"
    );
    world.prints(now, after);
}

const MANIFEST: (&str, &str) = ("mid/package/package.json", r#"{ "name": "it", "version": "1.0.0" }"#);

/// Two dependencies; one claims the name and version of the other.
const CLAIMED: Files = &[
    MANIFEST,
    (
        "mid/package/index.ts",
        "import a from 'good';\nimport b from 'evil';\nconsole.log(a, b);\nexport default () => {};\n",
    ),
    ("mid/node_modules/good/package.json", r#"{ "name": "good", "version": "1.0.0", "type": "module" }"#),
    ("mid/node_modules/good/index.js", "export default 'good';\n"),
    ("mid/node_modules/evil/package.json", r#"{ "name": "good", "version": "1.0.0", "type": "module" }"#),
    ("mid/node_modules/evil/index.js", "export default 'evil';\n"),
];

#[test]
fn a_file_of_a_package_that_claims_the_name_of_another_is_not_that_file() {
    let world = World::new(CLAIMED);
    world.prints(world.build(), "good evil");
    let inputs: Vec<String> = world.build().metadata().inputs.into_keys().collect();
    let index = ["dep:evil@1.0.0/index.js", "dep:good@1.0.0/index.js", "index.ts"];
    assert_eq!(inputs.iter().filter(|name| name.contains("index.")).collect::<Vec<_>>(), index);
}

#[test]
fn a_change_of_either_of_two_files_of_one_claimed_name_is_noticed() {
    decides(CLAIMED, "good evil", &[("mid/node_modules/good/index.js", "export default 'better';\n")], "better evil");
    decides(CLAIMED, "good evil", &[("mid/node_modules/evil/index.js", "export default 'worse';\n")], "good worse");
}

#[test]
fn an_artifact_of_one_package_is_not_used_for_another() {
    // Equal in everything that manifests claim, and in the file that is read last under a claimed name.
    let world = World::new(CLAIMED);
    let granted = world.build();
    let twin = TempDir::new_in(world.folder.path()).expect("a folder");
    for (file, text) in CLAIMED {
        let file = file.strip_prefix("mid/").expect("the file is below `mid`");
        let text = if file == "node_modules/good/index.js" { "export default 'other';\n" } else { *text };
        write_package(twin.path(), [&(file, text)]);
    }
    let cache = Cache::open(world.folder.path().join("cache"), InstallKey::from_bytes([7; 32]));
    let options = BuildOptions { cache: Some(cache), ..BuildOptions::default() };
    let input = Input::at(twin.path().join("package")).with_dependencies(vec![twin.path().join("node_modules")]);
    let other = build(&input, &options).expect("it builds");
    assert!(!other.cached && other.encoded().unwrap() != granted.encoded().unwrap());
    let again = world.build();
    assert!(again.cached && again.encoded().unwrap() == granted.encoded().unwrap());
}

#[test]
fn a_folder_of_the_package_that_is_called_like_a_dependency_is_none() {
    const FILES: Files = &[
        MANIFEST,
        (
            "mid/package/index.ts",
            "import a from 'good';\nimport b from './dep:good@1.0.0/index.js';\nconsole.log(a, b);\nexport default () => {};\n",
        ),
        ("mid/package/dep:good@1.0.0/index.js", "export default import.meta.filename;\n"),
        ("mid/node_modules/good/package.json", r#"{ "name": "good", "version": "1.0.0", "type": "module" }"#),
        ("mid/node_modules/good/index.js", "export default 'good';\n"),
    ];
    let world = World::new(FILES);
    let built = world.build();
    let inputs: Vec<String> = built.metadata().inputs.into_keys().collect();
    assert!(inputs.contains(&"./dep:good@1.0.0/index.js".to_owned()), "{inputs:?}");
    let own = world.root().join("dep:good@1.0.0/index.js");
    world.prints(built, &format!("good {}", own.display()));
}

#[test]
fn copies_of_one_version_in_two_folders_are_distinct() {
    // The package imports the nearer dependency; a dependency in that folder imports the farther one.
    const FILES: Files = &[
        MANIFEST,
        (
            "mid/package/index.ts",
            "import a from 'twice';\nimport b from 'user';\nconsole.log(a, b);\nexport default () => {};\n",
        ),
        ("mid/node_modules/twice/package.json", r#"{ "name": "twice", "version": "1.0.0", "type": "module" }"#),
        ("mid/node_modules/twice/index.js", "export default 'near';\n"),
        ("node_modules/twice/package.json", r#"{ "name": "twice", "version": "1.0.0", "type": "module" }"#),
        ("node_modules/twice/index.js", "export default 'far';\n"),
        ("node_modules/user/package.json", r#"{ "name": "user", "version": "1.0.0", "type": "module" }"#),
        ("node_modules/user/index.js", "export { default } from 'twice';\n"),
    ];
    let world = World::new(FILES);
    let built = world.build();
    let inputs: Vec<String> = built.metadata().inputs.into_keys().collect();
    for name in ["dep:twice@1.0.0/index.js", "dep:../../node_modules/twice/index.js", "dep:user@1.0.0/index.js"] {
        assert!(inputs.iter().any(|input| input == name), "{inputs:?}");
    }
    world.prints(built, "near far");
}

#[test]
fn a_name_or_version_of_any_length_is_not_repeated_in_every_name() {
    let world = World::new(CLAIMED);
    for version in ["9".repeat(1 << 20), "1/../../x".to_owned(), "1\n2\u{0}".to_owned(), "\u{202e}".to_owned()] {
        let manifest = serde_json::json!({ "name": "n".repeat(1 << 20), "version": version, "type": "module" });
        fs::write(world.folder.path().join("mid/node_modules/evil/package.json"), manifest.to_string())
            .expect("written");
        let built = world.build();
        assert!(built.metadata().inputs.contains_key("dep:evil@0.0.0/index.js"));
        assert!(built.metadata().inputs.keys().all(|name| name.len() < 100));
        world.prints(built, "good evil");
    }
}

#[test]
fn a_dependency_that_appears_nearer_is_noticed() {
    const FILES: Files = &[
        MANIFEST,
        ("mid/package/index.ts", "import a from 'one';\nconsole.log(a);\nexport default () => {};\n"),
        (
            "mid/package/node_modules/one/package.json",
            r#"{ "name": "one", "version": "1.0.0", "main": "lib/main.js" }"#,
        ),
        ("mid/package/node_modules/one/lib/main.js", "module.exports = require('two');\n"),
        ("mid/package/node_modules/two/index.js", "module.exports = 'beside';\n"),
    ];
    for nearer in [
        &[("mid/package/node_modules/one/node_modules/two/index.js", "module.exports = 'nearer';\n")] as Files,
        &[("mid/package/node_modules/one/lib/node_modules/two/index.js", "module.exports = 'nearer';\n")],
    ] {
        decides(FILES, "beside", nearer, "nearer");
    }
}

#[test]
fn a_file_that_is_found_first_from_now_on_is_noticed() {
    const FILES: Files = &[
        MANIFEST,
        ("mid/package/index.ts", "import a from 'one';\nconsole.log(a);\nexport default () => {};\n"),
        ("node_modules/one/index.js", "module.exports = require('./part');\n"),
        ("node_modules/one/part/index.js", "module.exports = 'folder';\n"),
        ("mid/node_modules/other/index.js", ""),
    ];
    decides(FILES, "folder", &[("node_modules/one/part.js", "module.exports = 'file';\n")], "file");
    decides(FILES, "folder", &[("node_modules/one/part.ts", "export = 'typed';\n")], "typed");
    decides(FILES, "folder", &[("mid/node_modules/one/index.js", "module.exports = 'nearer';\n")], "nearer");
    decides(
        FILES,
        "folder",
        &[
            ("node_modules/one/part/package.json", r#"{ "main": "./other.js" }"#),
            ("node_modules/one/part/other.js", "module.exports = 'main';\n"),
        ],
        "main",
    );
}

#[test]
fn a_manifest_that_appears_is_noticed() {
    const FILES: Files = &[
        MANIFEST,
        ("mid/package/index.ts", "import a from 'dep';\nconsole.log(a);\nexport default () => {};\n"),
        ("mid/node_modules/dep/index.js", "import b from './b.cjs';\nexport default typeof b;\n"),
        ("mid/node_modules/dep/b.cjs", "exports.__esModule = true;\nexports.default = 'text';\n"),
    ];
    decides(FILES, "string", &[("mid/node_modules/dep/package.json", r#"{ "type": "module" }"#)], "object");
}

#[test]
fn a_link_that_leads_elsewhere_is_noticed() {
    const FILES: Files = &[
        MANIFEST,
        ("mid/package/index.ts", "import a from './link/at.js';\nconsole.log(a);\nexport default () => {};\n"),
        ("mid/package/store/one/at.js", "export default import.meta.dirname.split('/').pop();\n"),
        ("mid/package/store/two/at.js", "export default import.meta.dirname.split('/').pop();\n"),
        ("mid/package/link", "->store/one"),
    ];
    decides(FILES, "one", &[("mid/package/link", "->store/two")], "two");
    // A dependency whose folder was not listed.
    const BESIDE: Files = &[
        MANIFEST,
        ("mid/package/index.ts", "import a from 'dep';\nconsole.log(a);\nexport default () => {};\n"),
        ("mid/node_modules/dep/index.js", "module.exports = require('./link/at.js');\n"),
        ("mid/node_modules/dep/store/one/at.js", "module.exports = __dirname.split('/').pop();\n"),
        ("mid/node_modules/dep/store/two/at.js", "module.exports = __dirname.split('/').pop();\n"),
        ("mid/node_modules/dep/link", "->store/one"),
    ];
    decides(BESIDE, "one", &[("mid/node_modules/dep/link", "->store/two")], "two");
}

#[test]
fn manifests_around_the_package_decide_nothing() {
    const FILES: Files = &[
        ("mid/package/index.js", "import a from './lib.js';\nconsole.log(a);\nexport default () => {};\n"),
        ("mid/package/lib.js", "import a from './a.cjs';\nexport default typeof a;\n"),
        ("mid/package/a.cjs", "exports.__esModule = true;\nexports.default = 'text';\n"),
    ];
    let world = World::new(FILES);
    let alone = world.build();
    world.change(&[("mid/package.json", r#"{ "type": "module" }"#)]);
    let inside = world.build_uncached();
    assert!(alone.encoded().unwrap() == inside.encoded().unwrap(), "a manifest outside made another artifact");
    assert!(world.build().cached);
    world.prints(inside, "string");
}

#[test]
fn limits_are_part_of_the_request() {
    let world = World::new(CLAIMED);
    world.build();
    let cache = Cache::open(world.folder.path().join("cache"), InstallKey::from_bytes([7; 32]));
    let limits = pijs_extc::Limits { nesting: 0, ..pijs_extc::Limits::default() };
    let options = BuildOptions { cache: Some(cache), limits, ..BuildOptions::default() };
    let failure = build(&world.input(), &options).expect_err("it opens a bracket");
    assert_eq!(failure.first().code(), Code::Limit);
}

#[test]
fn names_that_are_no_text_are_refused_and_end_nothing() {
    let name = |byte: u8| PathBuf::from(std::ffi::OsStr::from_bytes(&[byte, b'.', b't', b's']));
    // The case where the file is an entry.
    let world = World::new(&[MANIFEST, ("mid/package/extensions/plain.ts", "export default () => {};\n")]);
    for byte in [0xff, 0xfe] {
        let path = world.root().join("extensions").join(name(byte));
        fs::write(path, "export default () => {};\n").expect("written");
    }
    let failure = build(&world.input(), &BuildOptions::default()).expect_err("an entry without a name");
    assert_eq!(failure.first().code(), Code::Entry);
    // The case where a link leads to the file.
    let world = World::new(&[MANIFEST, ("mid/package/index.ts", "import './a';\nexport default () => {};\n")]);
    fs::write(world.root().join(name(0xff)), "export {};\n").expect("written");
    symlink(name(0xff), world.root().join("a.ts")).expect("a link");
    let failure = build(&world.input(), &BuildOptions::default()).expect_err("nothing can be imported there");
    assert_eq!(failure.first().code(), Code::Resolve);
}

#[test]
fn a_note_says_nothing_that_its_artifact_was_not_made_of() {
    let world = World::new(CLAIMED);
    world.build();
    let folder = world.folder.path().join("cache");
    let notes: Vec<PathBuf> = fs::read_dir(&folder)
        .expect("a cache")
        .map(|entry| entry.expect("readable").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "json"))
        .collect();
    let [note] = notes.as_slice() else { panic!("{notes:?}") };
    let whole: serde_json::Value = serde_json::from_slice(&fs::read(note).expect("a note")).expect("JSON");
    // Removes one member of each list, so that a lookup would not check it again.
    for list in ["files", "manifests", "probed"] {
        let mut shorter = whole.clone();
        let members = shorter[list].as_object_mut().expect("a list");
        let first = members.keys().next().expect("it is not empty").clone();
        members.remove(&first);
        fs::write(note, shorter.to_string()).expect("written");
        assert!(!world.build().cached, "{list} without {first}");
        assert!(world.build().cached, "stored again");
    }
}

/// Grants are bound to the inputs, so they must become invalid if manifests that lead to the same files are exchanged.
#[test]
fn a_manifest_that_decides_an_import_is_an_input() {
    let world = World::new(&[
        (
            "mid/package/package.json",
            r##"{ "name": "it", "version": "1.0.0", "imports": { "#a": "./a.ts", "#b": "./b.ts" } }"##,
        ),
        (
            "mid/package/index.ts",
            "import a from '#a';\nimport b from '#b';\nimport c from 'moved';\nconsole.log(a, b, c);\nexport default () => {};\n",
        ),
        ("mid/package/a.ts", "export default 'a';\n"),
        ("mid/package/b.ts", "export default 'b';\n"),
        // No file of this package is compiled.
        ("mid/node_modules/moved/package.json", r#"{ "name": "moved", "version": "1.0.0", "main": "../other/c.js" }"#),
        ("mid/node_modules/other/package.json", r#"{ "name": "other", "version": "1.0.0", "type": "module" }"#),
        ("mid/node_modules/other/c.js", "export default 'c';\n"),
        ("mid/node_modules/other/d.js", "export default 'd';\n"),
    ]);
    world.prints(world.build(), "a b c");
    let before = world.build().metadata().inputs;
    let manifests: Vec<&String> = before.keys().filter(|name| name.ends_with("package.json")).collect();
    assert_eq!(manifests, ["dep:moved@1.0.0/package.json", "dep:other@1.0.0/package.json", "package.json"]);

    world.change(&[(
        "mid/package/package.json",
        r##"{ "name": "it", "version": "1.0.0", "imports": { "#a": "./b.ts", "#b": "./a.ts" } }"##,
    )]);
    world.prints(world.build(), "b a c");
    let after = world.build().metadata().inputs;
    assert_eq!(before.keys().collect::<Vec<_>>(), after.keys().collect::<Vec<_>>());
    let changed: Vec<&String> =
        before.iter().filter(|(name, digest)| after[*name] != **digest).map(|it| it.0).collect();
    assert_eq!(changed, ["package.json"]);
}
