//! Tests that links below a store are not followed, except those that users create on purpose, and that the folder of a package
//! contains no other package.

#[expect(dead_code, reason = "each test binary uses its own part")]
mod support;

use pijs_durable::Disk;
use pijs_packages::{
    DiscoverOptions, InstallCode, InstallScope, PackageError, ResourceOptions, recover, resolve_extensions,
    resolve_resources,
};
use pijs_testkit::registry::Registry;
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use support::{Home, all};

const SCOPES: [InstallScope; 2] = [InstallScope::User, InstallScope::Project];

/// A home with an unrelated folder, `home/victim/KEPT/precious` for each name, which no install may touch.
struct World {
    home: Home,
    registry: Registry,
    root: PathBuf,
    scope: InstallScope,
}

impl World {
    fn new(scope: InstallScope) -> Self {
        let home = Home::new();
        let registry = Registry::start();
        registry.publish_extension("steady", "1.0.0", json!({}));
        registry.publish_extension("@team/kept", "1.0.0", json!({}));
        let root = home.dirs().root(scope);
        let this = Self { home, registry, root, scope };
        for name in ["kept", "o/n", "n"] {
            write(&this.victim().join(name).join("precious"), "precious");
            write(&this.victim().join(name).join("package.json"), r#"{"name": "kept", "version": "0.1.0"}"#);
        }
        this
    }

    fn victim(&self) -> PathBuf {
        self.home.dirs().home.join("victim")
    }

    fn settings(&self, packages: &[&str]) {
        write(&self.root.join("settings.json"), &json!({ "packages": packages }).to_string());
    }

    fn link(&self, at: &str, to: &Path) {
        let at = self.root.join(at);
        fs::create_dir_all(at.parent().expect("below the root")).expect("a folder");
        symlink(to, at).expect("a link");
    }

    fn note(&self, note: &Value) {
        write(&self.root.join("npm/.pending.json"), &note.to_string());
    }

    async fn install(&self, source: &str) -> Result<(), PackageError> {
        self.home.installer(&self.registry).install(source, self.scope).await.map(drop)
    }

    fn remove(&self, source: &str) -> Result<(), PackageError> {
        self.home.installer(&self.registry).remove(source, self.scope).map(drop)
    }

    /// Checks that the unrelated folder is unchanged.
    fn is_untouched(&self, what: &str) {
        for name in ["kept", "o/n", "n"] {
            let folder = self.victim().join(name);
            assert_eq!(fs::read(folder.join("precious")).expect(what), b"precious", "{what}");
            assert_eq!(fs::read_dir(&folder).expect(what).count(), 2, "{what}: {name}");
        }
        assert_eq!(fs::read_dir(self.victim()).expect(what).count(), 3, "{what}");
    }
}

fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().expect("a folder above")).expect("a folder");
    fs::write(path, text).expect("written");
}

fn is_link(error: &PackageError, at: &Path) {
    assert_eq!(error.code, InstallCode::Link, "{error}");
    assert!(error.to_string().contains(&*at.to_string_lossy()), "{error}");
    assert!(error.to_string().contains("remove the link"), "{error}");
}

#[tokio::test]
async fn a_link_in_place_of_a_scope_s_folder_is_refused() {
    for scope in SCOPES {
        let world = World::new(scope);
        world.link("npm/node_modules/@team", &world.victim());
        world.settings(&["npm:@team/kept"]);
        let at = world.root.join("npm/node_modules/@team");
        let settings = fs::read(world.root.join("settings.json")).expect("settings");
        is_link(&world.install("@team/kept").await.expect_err("followed"), &at);
        is_link(&world.remove("@team/kept").expect_err("followed"), &at);
        let installer = world.home.installer(&world.registry);
        is_link(&all(installer.update(None, scope).await).expect_err("followed"), &at);
        world.is_untouched("scope");
        // The change is refused before it begins, and without the link the next command succeeds.
        assert_eq!(fs::read(world.root.join("settings.json")).expect("settings"), settings);
        assert!(!world.root.join("npm/.pending.json").exists() && world.home.staging(scope) == 0);
        fs::remove_file(at).expect("our own link");
        world.install("@team/kept").await.expect("installed");
    }
}

#[test]
fn links_on_the_way_to_a_repository_are_refused() {
    for (scope, at) in SCOPES.into_iter().flat_map(|scope| [(scope, "git/example.org"), (scope, "git/example.org/o")]) {
        let world = World::new(scope);
        let to = if at.ends_with("/o") { world.victim().join("o") } else { world.victim() };
        world.link(at, &to);
        world.settings(&["git:example.org/o/n"]);
        is_link(&world.remove("git:example.org/o/n").expect_err("followed"), &world.root.join(at));
        world.is_untouched(at);
    }
}

#[tokio::test]
async fn a_journal_whose_staging_folder_is_behind_a_link_is_refused() {
    for scope in SCOPES {
        let removal = json!({
            "identity": "npm:steady", "staged": "", "manifest": null, "source": null, "listed": null,
            "lockBefore": null, "lockAfter": "{}",
        });
        let mut addition = removal.clone();
        addition["manifest"] = json!("0");
        addition["source"] = json!("npm:steady");
        for (mut note, staged) in [(removal, "out/taken"), (addition.clone(), "out/kept"), (addition, "out/o/n")] {
            let world = World::new(scope);
            world.link("npm/.staging/out", &world.victim());
            if staged == "out/taken" {
                write(&world.root.join("npm/node_modules/steady/package.json"), r#"{"name": "steady"}"#);
            }
            let staging = world.root.join("npm/.staging");
            note["staged"] = json!(staging.join(staged));
            world.note(&note);
            let problems = recover(&Disk::system(), &world.home.dirs(), &[scope]);
            assert_eq!(problems.len(), 1, "{staged}");
            is_link(&problems[0], &staging.join("out"));
            is_link(&world.install("steady").await.expect_err("followed"), &staging.join("out"));
            world.is_untouched(staged);
            assert!(!world.root.join("pijs-lock.json").exists(), "{staged}: something was changed");
        }
    }
}

/// Folders in staging with the names of ended processes are swept without following links.
#[test]
fn sweeping_removes_links_but_not_their_targets() {
    for scope in SCOPES {
        let world = World::new(scope);
        world.link("npm/.staging/a.4294967290-00000001-0.tmp", &world.victim());
        world.link("npm/.staging/b.4294967290-00000001-1.tmp/deeper/out", &world.victim());
        let problems = recover(&Disk::system(), &world.home.dirs(), &[scope]);
        assert!(problems.is_empty(), "{problems:?}");
        assert_eq!(world.home.staging(scope), 0);
        world.is_untouched("swept");
    }
}

#[tokio::test]
async fn nothing_of_a_project_s_store_may_be_a_link() {
    for at in [
        "",
        "npm",
        "npm/node_modules",
        "npm/.staging",
        "npm/.lock",
        "npm/.pending.json",
        "git",
        "settings.json",
        "pijs-lock.json",
    ] {
        let world = World::new(InstallScope::Project);
        let target = world.victim();
        if at.is_empty() {
            symlink(target, &world.root).expect("a link");
        } else {
            let empty = world.home.dirs().home.join("empty.json");
            write(&empty, "{}");
            world.link(at, if at.ends_with(".json") { &empty } else { &target });
        }
        let error = world.install("steady").await.expect_err(at);
        assert!(error.code == InstallCode::Link, "{at}: {error}");
        assert!(recover(&Disk::system(), &world.home.dirs(), &[InstallScope::Project]).len() <= 1);
        world.is_untouched(at);
    }
}

#[tokio::test]
async fn a_user_may_keep_the_folder_the_packages_and_the_settings_elsewhere() {
    let world = World::new(InstallScope::User);
    let elsewhere = world.home.dirs().home.join("elsewhere");
    for name in ["agent", "npm", "git"] {
        fs::create_dir_all(elsewhere.join(name)).expect("a folder");
    }
    fs::remove_dir_all(&world.root).expect("our own folder");
    symlink(elsewhere.join("agent"), &world.root).expect("a link");
    world.link("npm", &elsewhere.join("npm"));
    world.link("git", &elsewhere.join("git"));
    write(&elsewhere.join("dotfiles.json"), r#"{"theme": "dark"}"#);
    world.link("settings.json", &elsewhere.join("dotfiles.json"));
    write(&elsewhere.join("git/example.org/o/n/package.json"), r#"{"name": "n"}"#);

    world.install("steady").await.expect("installed");
    // Links a package as `npm link` does during development.
    symlink(world.victim().join("kept"), elsewhere.join("npm/node_modules/linked")).expect("a link");
    let settings = || -> Value {
        serde_json::from_slice(&fs::read(elsewhere.join("dotfiles.json")).expect("settings")).expect("json")
    };
    assert_eq!(settings(), json!({"theme": "dark", "packages": ["npm:steady"]}));
    assert!(elsewhere.join("npm/node_modules/steady/package.json").is_file());
    assert!(elsewhere.join("agent/pijs-lock.json").is_file());
    write(
        &elsewhere.join("dotfiles.json"),
        &json!({"packages": ["npm:steady", "npm:linked", "git:example.org/o/n"]}).to_string(),
    );
    for source in ["npm:steady", "npm:linked", "git:example.org/o/n"] {
        world.remove(source).expect(source);
    }
    assert_eq!(settings(), json!({"packages": []}));
    assert_eq!(fs::read_dir(elsewhere.join("npm/node_modules")).expect("there").count(), 0);
    assert!(!elsewhere.join("git/example.org").exists());
    assert!(fs::symlink_metadata(world.root.join("settings.json")).expect("there").is_symlink());
    world.is_untouched("user");
}

#[tokio::test]
async fn nested_repositories_are_neither_installed_nor_removed() {
    let (outer, inner) = ("git:example.org/o/n", "git:example.org/o/n/deep");
    for (listed, wanted) in [(outer, inner), (inner, outer)] {
        let world = World::new(InstallScope::User);
        world.settings(&[listed, "git:example.org/o/number"]);
        let error = world.install(wanted).await.expect_err("nested");
        assert_eq!(error.code, InstallCode::Source, "{error}");
        assert!(error.to_string().contains(&format!("remove {listed} first")), "{error}");
    }
    // Simulates links that another program or an older version left.
    let world = World::new(InstallScope::User);
    world.settings(&[outer, inner]);
    let place = world.root.join("git/example.org/o/n");
    write(&place.join("package.json"), r#"{"name": "n"}"#);
    write(&place.join("deep/package.json"), r#"{"name": "deep"}"#);
    let error = world.remove(outer).expect_err("the package contains another");
    assert!(error.to_string().contains(&format!("remove {inner} first")), "{error}");
    assert!(place.join("package.json").exists() && place.join("deep/package.json").exists());
    world.remove(inner).expect("removed");
    assert!(place.join("package.json").exists() && !place.join("deep").exists());
    world.remove(outer).expect("removed");
    assert!(!place.exists());
}

/// A package reads its own folder without consent, so a project must not declare the folder around it a package.
#[test]
fn a_package_of_a_project_does_not_enclose_the_project() {
    for (name, prepare) in [
        ("path", &(|root: &Path| write(&root.join("settings.json"), r#"{"packages": ["../.."]}"#)) as &dyn Fn(&Path)),
        ("extension", &|root| write(&root.join("settings.json"), r#"{"extensions": ["../.."]}"#)),
    ] {
        let world = World::new(InstallScope::User);
        let around = world.home.dirs().home.join("around");
        let mut dirs = world.home.dirs();
        // Clones a repository named `extensions` next to others.
        dirs.cwd = around.join("extensions");
        write(&dirs.cwd.join("evil.ts"), "export default () => {};\n");
        prepare(&dirs.cwd.join(".pi"));
        let options = DiscoverOptions { dirs, named: Vec::new(), only_named: false, trusted: true };
        let found = resolve_extensions(&options);
        assert!(found.packages.is_empty(), "{name}: {:?}", found.packages);
        assert!(found.problems.iter().any(|problem| problem.code == InstallCode::Path), "{name}: {:?}", found.problems);

        // When pi is started in a subfolder, the whole repository belongs to the project.
        fs::create_dir(around.join(".git")).expect("a folder");
        let found = resolve_extensions(&options);
        assert_eq!(found.packages.len(), 1, "{name}: {:?}", found.problems);
    }
}

/// The grants of a package are stored under its name; a link in a project would give that name to other code.
#[test]
fn a_package_of_a_project_is_not_a_link() {
    for at in ["npm/node_modules/steady", "npm/node_modules", "npm", ""] {
        let world = World::new(InstallScope::Project);
        let evil = world.home.project().join("evil");
        let inside = Path::new("npm/node_modules/steady");
        let target = if at.is_empty() { evil.clone() } else { evil.join(at) };
        write(&evil.join(inside).join("extensions/index.ts"), "export default () => {};\n");
        write(&evil.join(inside).join("skills/evil/SKILL.md"), "---\nname: evil\ndescription: evil\n---\n");
        write(&evil.join("settings.json"), r#"{"packages": ["npm:steady"]}"#);
        if at.is_empty() {
            symlink(&target, &world.root).expect("a link");
        } else {
            world.settings(&["npm:steady"]);
            world.link(at, &target);
        }
        let link: PathBuf = world.root.join(at).components().collect();
        let options = |named: &[&str]| DiscoverOptions {
            dirs: world.home.dirs(),
            named: named.iter().map(|name| (*name).to_owned()).collect(),
            only_named: false,
            trusted: true,
        };
        let found = resolve_extensions(&options(&[]));
        assert!(found.packages.is_empty(), "{at}: {:?}", found.packages);
        is_link(&found.problems[0], &link);
        let found = resolve_extensions(&options(&["npm:steady"]));
        assert!(found.packages.is_empty(), "{at}: {:?}", found.packages);
        is_link(&found.refused[0], &link);
        assert!(resolve_resources(&options(&["npm:steady"]), &ResourceOptions::default()).skills.is_empty(), "{at}");
        let listed = world.home.installer(&world.registry).list().expect("listed");
        assert!(listed.iter().all(|package| !package.present), "{at}: {listed:?}");
    }
}

/// A link out of the folder is not its manifest: the target may be private, or a file without an end.
#[cfg(target_os = "linux")]
#[test]
fn a_manifest_that_is_a_link_out_of_its_folder_is_not_read() {
    let world = World::new(InstallScope::Project);
    let folder = world.home.project().join("evil");
    fs::create_dir(&folder).expect("a folder");
    symlink("/proc/self/pagemap", folder.join("package.json")).expect("a link");
    world.settings(&["../evil"]);
    let listed = world.home.installer(&world.registry).list().expect("listed");
    assert_eq!(listed.len(), 1);
    assert_eq!(world.remove("named").expect_err("no such name").code, InstallCode::Source);
    let dirs = world.home.dirs();
    let found = resolve_extensions(&DiscoverOptions { dirs, named: Vec::new(), only_named: false, trusted: true });
    assert_eq!(found.problems[0].code, InstallCode::Path, "{}", found.problems[0]);
}
