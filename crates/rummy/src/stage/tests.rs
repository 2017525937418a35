//! Tests that plugins are found by rummy's rules and copied under the rules of a build.

use super::*;

fn tree(files: &[&str]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    for file in files {
        let path = folder.path().join(file);
        fs::create_dir_all(path.parent().expect("in the folder")).expect("made");
        fs::write(path, "export default class {}").expect("written");
    }
    folder
}

/// Follows rummy's plugin guide, "Plugin Contract": a plugin is a folder with a file of the same name. An `index.js` in a
/// folder, and a file at the top, are plugins too. Plugins are sorted, so that their order is the same everywhere.
#[test]
fn plugins_are_named_after_their_folder_and_sorted() {
    let folder = tree(&[
        "b/b.js",
        "a/index.js",
        "a/helper.js",
        "a/a.test.js",
        "top.js",
        "index.js",
        "c/c.js",
        "c/DISABLED",
        "d/e/e.js",
        "d/d.js",
        ".hidden/hidden.js",
        "node_modules/x/x.js",
    ]);
    let set = PluginSet::default().folder(folder.path()).expect("read");
    let names: Vec<&str> = set.plugins().iter().map(|plugin| plugin.import.as_str()).collect();
    let expected = ["a/index.js", "b/b.js", "d/d.js", "d/e/e.js", "top.js"].map(|name| format!("./bundle0/{name}"));
    assert_eq!(names, expected);
}

/// Follows rummy's plugin guide, "External plugins": an absolute path or a package, in the order of the variables' names.
#[test]
fn variables_name_files_folders_and_packages() {
    let folder = tree(&[
        "one.js",
        "two/lib/main.js",
        "node_modules/@org/rummy.web/index.js",
        ".pi/npm/node_modules/@org/rummy.web/index.js",
        ".pi/npm/node_modules/installed/index.js",
    ]);
    fs::write(folder.path().join("two/package.json"), r#"{"exports": {".": "./lib/main.js"}}"#).expect("written");
    let path = |name: &str| folder.path().join(name).display().to_string();
    let variables = [
        ("RUMMY_PLUGIN_WEB", "@org/rummy.web".to_owned()),
        ("RUMMY_PLUGIN_INSTALLED", "installed".to_owned()),
        ("RUMMY_PLUGIN_ONE", path("one.js")),
        ("RUMMY_PLUGIN_TWO", path("two")),
        ("RUMMY_PLUGIN_NONE", String::new()),
        ("PATH", "/bin".to_owned()),
    ];
    let variables = variables.map(|(name, value)| (name.to_owned(), value)).into_iter().collect();
    let modules =
        ["node_modules", ".pi/npm/node_modules"].map(|name| (folder.path().join(name), InstallScope::Project));
    let set = PluginSet::default().variables(&variables, &modules).expect("all plugins exist");
    let of = |one: &ExternalPlugin| (one.name.clone(), one.id.to_string(), one.set.plugins()[0].import.clone());
    let found: Vec<(String, String, String)> = set.externals().iter().map(of).collect();
    let real = |name: &str| format!("path:{}", folder.path().join(name).canonicalize().expect("there").display());
    let expected = [
        ("installed", "rummy:installed".to_owned(), "installed"),
        ("one", real("one.js"), "./bundle0/one.js"),
        ("two", real("two"), "./bundle0/lib/main.js"),
        ("web", "rummy:@org/rummy.web".to_owned(), "@org/rummy.web"),
    ];
    assert_eq!(found, expected.map(|(name, id, import)| (name.to_owned(), id, import.to_owned())));
    let web = &set.externals().last().expect("there are four").set.plugins()[0];
    assert!(!web.found.components().any(|part| part.as_os_str() == "npm"), "the first folder counts: {web:?}");
    for nowhere in [path("nowhere.js"), "absent".to_owned(), "../two".to_owned()] {
        let missing = [("RUMMY_PLUGIN_X".to_owned(), nowhere)].into_iter().collect();
        let error = PluginSet::default().variables(&missing, &modules).expect_err("the plugin is missing");
        assert!(error.to_string().starts_with("RUMMY_PLUGIN_X="), "{error}");
    }
}

#[test]
fn a_package_holds_code_data_and_what_it_depends_on() {
    let folder = tree(&[
        "src/plugins/a/a.js",
        "src/lib/x.js",
        "src/plugins/a/a.test.js",
        "a.png",
        "node_modules/@s/dep/index.js",
        "node_modules/deep/index.js",
        "node_modules/@s/dep/node_modules/own/index.js",
        "node_modules/other/index.js",
    ]);
    let depends = |path: &str, on: &str| {
        fs::write(folder.path().join(path), json!({ "dependencies": { on: "1" } }).to_string()).expect("written");
    };
    depends("package.json", "@s/dep");
    depends("node_modules/@s/dep/package.json", "deep");
    depends("node_modules/deep/package.json", "../../escape");
    let base = tempfile::tempdir().expect("a folder");
    let set = PluginSet::default().folder(folder.path()).expect("read");
    let staged =
        set.stage(&base.path().join("s"), &json!({"profile": "2.x"}), &FileAccess::default()).expect("written");
    let has = |path: &str| staged.package().join(path).is_file();
    for path in [
        "bundle0/src/plugins/a/a.js",
        "bundle0/src/lib/x.js",
        "dialect/index.ts",
        "node_modules/@s/dep/index.js",
        "node_modules/@s/dep/node_modules/own/index.js",
        "node_modules/deep/index.js",
    ] {
        assert!(has(path), "{path}");
    }
    for path in ["bundle0/a.png", "bundle0/src/plugins/a/a.test.js", "node_modules/other/index.js"] {
        assert!(!has(path), "{path}");
    }
    let entry = fs::read_to_string(staged.package().join("index.js")).expect("written");
    assert!(entry.contains(r#"load: () => import("./bundle0/src/plugins/a/a.js")"#), "{entry}");
}

#[cfg(unix)]
mod links {
    use super::*;
    use pijs_hostcall::places::Places;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    /// A home with keys, and in it a project with a folder of plugins.
    fn home() -> tempfile::TempDir {
        let home = tree(&["home/code/app/plugins/a/a.js", "home/notes/n.md"]);
        for path in [".pi/agent/auth.json", ".docker/config.json", ".pi/agent/package.json"] {
            let path = home.path().join("home").join(path);
            fs::create_dir_all(path.parent().expect("in the home")).expect("made");
            fs::write(path, "{}").expect("written");
        }
        home
    }

    fn access(home: &Path) -> FileAccess {
        FileAccess::new(Places::new(home.join("code/app"), home, home.join(".pi/agent"), home.join("tmp")))
    }

    /// Returns the staged files of `home/code/app/plugins`, by path in the package, and the record.
    fn staged(home: &Path, set: PluginSet) -> (Vec<String>, BuildRecord) {
        let base = home.join("stage");
        let staged = set.stage(&base, &json!({}), &access(home)).expect("staged");
        assert_eq!(base.metadata().expect("there").permissions().mode() & 0o777, 0o700);
        let mut files = Vec::new();
        let mut folders = vec![base.clone()];
        while let Some(folder) = folders.pop() {
            for path in sorted(&folder).expect("read") {
                let name = slashed(path.strip_prefix(&base).expect("below"));
                if path.is_dir() {
                    folders.push(path);
                } else if !name.starts_with("dialect/") {
                    files.push(name);
                }
            }
        }
        files.sort();
        (files, staged.record)
    }

    #[test]
    fn packages_that_links_lead_elsewhere_are_refused() {
        let home = home();
        let home = home.path().canonicalize().expect("there").join("home");
        let plugins = home.join("code/app/plugins");
        fs::write(plugins.join("package.json"), r#"{"dependencies": {"agent": "1"}}"#).expect("written");
        symlink("../../../.pi", plugins.join("node_modules")).expect("linked");
        let (files, record) = staged(&home, PluginSet::default().folder(&plugins).expect("read"));
        assert_eq!(files, ["bundle0/a/a.js", "bundle0/package.json", "index.js", "package.json"]);
        let [refused] = record.refused.as_slice() else { panic!("{:?}", record.refused) };
        assert!(refused.contains("node_modules/agent leads out of"), "{refused}");
    }

    /// Covers package managers that link packages within `node_modules`, and a `node_modules` around the plugins.
    #[test]
    fn packages_that_are_linked_within_node_modules_are_copied() {
        let home = home();
        let home = home.path().canonicalize().expect("there").join("home");
        let plugins = home.join("code/app/plugins");
        fs::write(plugins.join("package.json"), r#"{"dependencies": {"x": "1", "y": "1"}}"#).expect("written");
        for path in ["plugins/node_modules/.store/x@1/index.js", "node_modules/y/index.js"] {
            let path = home.join("code/app").join(path);
            fs::create_dir_all(path.parent().expect("in the home")).expect("made");
            fs::write(path, "").expect("written");
        }
        symlink(".store/x@1", plugins.join("node_modules/x")).expect("linked");
        symlink("../../node_modules/y", plugins.join("node_modules/y")).expect("linked");
        let (files, record) = staged(&home, PluginSet::default().folder(&plugins).expect("read"));
        let copied: Vec<&String> = files.iter().filter(|file| file.starts_with("node_modules/")).collect();
        assert_eq!(copied, ["node_modules/x/index.js", "node_modules/y/index.js"]);
        assert!(record.refused.is_empty(), "{:?}", record.refused);
        assert_eq!(record.inputs.len(), 4, "{:?}", record.inputs);
    }

    #[test]
    fn protected_files_are_refused_whatever_folder_is_named() {
        let home = home();
        let home = home.path().canonicalize().expect("there").join("home");
        for (folder, name) in [(".docker", "config.json"), (".pi/agent", "auth.json")] {
            let (files, record) = staged(&home, PluginSet::default().folder(&home.join(folder)).expect("read"));
            assert!(!files.iter().any(|file| file.ends_with(name)), "{files:?}");
            let [refused] = record.refused.as_slice() else { panic!("{:?}", record.refused) };
            assert!(refused.contains(name) && refused.contains("protected"), "{refused}");
        }
    }

    #[test]
    fn links_to_files_elsewhere_are_named_and_not_copied() {
        let home = home();
        let home = home.path().canonicalize().expect("there").join("home");
        let plugins = home.join("code/app/plugins");
        symlink("../../../../notes/n.md", plugins.join("a/n.md")).expect("linked");
        symlink("a", plugins.join("b")).expect("linked");
        let (files, record) = staged(&home, PluginSet::default().folder(&plugins).expect("read"));
        assert_eq!(files, ["bundle0/a/a.js", "index.js", "package.json"]);
        let [refused] = record.refused.as_slice() else { panic!("{:?}", record.refused) };
        assert!(refused.contains("a/n.md leads out of") && refused.ends_with("notes/n.md"), "{refused}");
    }

    /// A variable that names a single file does not include its folder: other data, for example in a home, is not copied.
    #[test]
    fn the_folder_of_one_file_is_not_its_own() {
        let home = home();
        let home = home.path().canonicalize().expect("there").join("home");
        fs::write(home.join("x.js"), "").expect("written");
        let variables = [("RUMMY_PLUGIN_X".to_owned(), home.join("x.js").display().to_string())];
        let set = PluginSet::default().variables(&variables.into_iter().collect(), &[]).expect("there");
        let (files, record) = staged(&home, set.externals()[0].set.clone());
        assert!(files.contains(&"bundle0/x.js".to_owned()), "{files:?}");
        assert!(!files.iter().any(|file| file.ends_with("notes/n.md")), "{files:?}");
        assert!(record.refused.iter().any(|refused| refused.contains("notes/n.md")), "{:?}", record.refused);
    }
}
