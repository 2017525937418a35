//! Tests which extensions a session loads, in which order, and which ones it skips.

#[expect(dead_code, reason = "each test binary uses its own part")]
mod support;

use pijs_packages::{
    DiscoverOptions, Discovery, DiscoveryOrigin, InstallCode, InstallScope, PackageError, resolve_extensions,
};
use pijs_testkit::registry::Registry;
use serde_json::json;
use std::path::Path;
use support::Home;

fn write(path: &Path, text: &str) {
    std::fs::create_dir_all(path.parent().expect("a folder")).expect("created");
    std::fs::write(path, text).expect("written");
}

fn find(home: &Home, named: &[&str], trusted: bool) -> Discovery {
    let named = named.iter().map(|text| (*text).to_owned()).collect();
    resolve_extensions(&DiscoverOptions { dirs: home.dirs(), named, only_named: false, trusted })
}

/// Returns the entries in load order, relative to the test's folder.
fn order(home: &Home, found: &Discovery) -> Vec<String> {
    let base = home.agent().parent().expect("a folder").to_path_buf();
    let entries = found.packages.iter().flat_map(|package| &package.entries);
    entries.map(|entry| entry.strip_prefix(&base).expect("below").to_string_lossy().into_owned()).collect()
}

/// Creates one extension in each location that pi searches.
fn everywhere(home: &Home) {
    let (agent, project) = (home.agent(), home.project());
    write(&project.join("named.ts"), "");
    write(&project.join("lib/listed.ts"), "");
    write(
        &project.join(".pi/settings.json"),
        &json!({"extensions": ["../lib/listed.ts"], "packages": ["../pack"]}).to_string(),
    );
    write(&project.join(".pi/extensions/b.ts"), "");
    write(&project.join(".pi/extensions/a/index.js"), "");
    write(&project.join(".pi/extensions/a/helper.ts"), "");
    write(&project.join(".pi/extensions/node_modules/x/index.js"), "");
    write(&project.join(".pi/extensions/types.d.ts"), "");
    write(&project.join("pack/extensions/one.ts"), "");
    write(&agent.join("user.ts"), "");
    write(
        &agent.join("settings.json"),
        &json!({"extensions": ["user.ts"], "packages": ["./upack", "../project/pack"]}).to_string(),
    );
    write(&agent.join("extensions/auto.ts"), "");
    write(&agent.join("upack/package.json"), &json!({"pi": {"extensions": ["./src/*.ts", "!**/skip.ts"]}}).to_string());
    write(&agent.join("upack/src/skip.ts"), "");
    write(&agent.join("upack/src/main.ts"), "");
    write(&agent.join("upack/extensions/not-declared.ts"), "");
}

#[test]
fn the_order_is_named_project_user_packages() {
    let home = Home::new();
    everywhere(&home);
    let found = find(&home, &["named.ts"], true);
    assert!(found.problems.is_empty(), "{:?}", found.problems);
    assert_eq!(
        order(&home, &found),
        [
            "project/named.ts",
            "project/lib/listed.ts",
            "project/.pi/extensions/a/index.js",
            "project/.pi/extensions/b.ts",
            "agent/user.ts",
            "agent/extensions/auto.ts",
            "project/pack/extensions/one.ts",
            "agent/upack/src/main.ts",
        ]
    );
    let origins: Vec<DiscoveryOrigin> = found.packages.iter().map(|package| package.origin).collect();
    assert_eq!(origins[0], DiscoveryOrigin::Named);
    assert_eq!(
        origins[6],
        DiscoveryOrigin::Package(InstallScope::Project),
        "the same package in both scopes counts for the project"
    );
}

#[test]
fn an_untrusted_project_loads_nothing() {
    let home = Home::new();
    everywhere(&home);
    let found = find(&home, &[], false);
    assert!(found.untrusted);
    assert!(order(&home, &found).iter().all(|entry| entry.starts_with("agent/") || entry.starts_with("project/pack/")));
    // The user's settings name the package, not the project's.
    assert_eq!(found.packages.last().expect("some").origin, DiscoveryOrigin::Package(InstallScope::User));
    assert!(!find(&Home::new(), &[], false).untrusted);
}

#[test]
fn only_named_excludes_all_others_and_a_file_is_loaded_once() {
    let home = Home::new();
    everywhere(&home);
    let named = vec!["named.ts".to_owned(), "./named.ts".to_owned(), ".pi/extensions/b.ts".to_owned()];
    let options = DiscoverOptions { dirs: home.dirs(), named, only_named: true, trusted: true };
    assert_eq!(order(&home, &resolve_extensions(&options)), ["project/named.ts", "project/.pi/extensions/b.ts"]);
    assert_eq!(
        order(&home, &find(&home, &[".pi/extensions/b.ts"], true))
            .iter()
            .filter(|entry| entry.ends_with("b.ts"))
            .count(),
        1
    );
}

#[test]
fn a_missing_extension_is_a_problem_and_others_load() {
    let home = Home::new();
    everywhere(&home);
    write(
        &home.agent().join("settings.json"),
        &json!({"packages": ["npm:absent", "git:host/x", "./gone"]}).to_string(),
    );
    let found = find(&home, &["missing.ts", "npm:never"], true);
    let codes = |problems: &[PackageError]| problems.iter().map(|problem| problem.code).collect::<Vec<_>>();
    assert_eq!(codes(&found.refused), [InstallCode::Source; 2], "what was named");
    assert_eq!(codes(&found.problems), [InstallCode::Source; 3], "what settings list");
    assert!(found.refused[0].message.contains("Extension path does not exist"));
    assert!(order(&home, &found).contains(&"project/lib/listed.ts".to_owned()));
}

#[test]
fn settings_filter_what_a_folder_and_a_package_offer() {
    let home = Home::new();
    everywhere(&home);
    write(&home.agent().join("extensions/off.ts"), "");
    write(&home.agent().join("upack/src/more.ts"), "");
    let settings = json!({
        "extensions": ["!extensions/off.ts"],
        "packages": [{"source": "./upack", "extensions": ["src/more.ts"]}, {"source": "../project/pack", "extensions": []}],
    });
    write(&home.agent().join("settings.json"), &settings.to_string());
    assert_eq!(order(&home, &find(&home, &[], false)), ["agent/extensions/auto.ts", "agent/upack/src/more.ts"]);
}

#[tokio::test]
async fn an_installed_package_is_found_by_settings_and_by_name() {
    let (home, registry) = (Home::new(), Registry::start().with_fixtures(&support::fixtures()));
    home.installer(&registry).install("pi-ttsr", InstallScope::User).await.expect("installed");
    for named in [&[][..], &["npm:pi-ttsr"][..]] {
        let found = find(&home, named, true);
        assert_eq!(found.packages.len(), 1, "{:?}", found.problems);
        assert_eq!(found.packages[0].id.as_str(), "npm:pi-ttsr");
        assert_eq!(found.packages[0].installed, Some(InstallScope::User));
        assert_eq!(order(&home, &found), ["agent/npm/node_modules/pi-ttsr/extensions/ttsr/index.ts"]);
    }
    // The project's package takes precedence over the user's if the project is trusted.
    home.installer(&registry).install("pi-ttsr", InstallScope::Project).await.expect("installed");
    for named in [&[][..], &["npm:pi-ttsr"][..]] {
        for (trusted, scope) in [(true, InstallScope::Project), (false, InstallScope::User)] {
            let found = find(&home, named, trusted);
            assert_eq!(found.packages[0].installed, Some(scope), "{:?}", found.problems);
        }
    }
    let folder = home.agent().join("npm/node_modules/pi-ttsr");
    let path = folder.to_str().expect("text");
    assert_eq!(find(&home, &[path], true).packages[0].installed, None, "a path is nobody's");
}

#[test]
fn a_built_artifact_is_found_by_its_folder_and_its_path() {
    let home = Home::new();
    let project = home.project();
    for folder in ["out", "listed", ".pi/extensions/inside", "sources"] {
        write(&project.join(folder).join("extension.artifact"), "");
    }
    write(&project.join("out/artifact.json"), "{}");
    write(&project.join("named.artifact"), "");
    write(&project.join(".pi/extensions/beside.artifact"), "");
    write(&project.join("sources/index.ts"), "");
    write(&project.join(".pi/settings.json"), &json!({"packages": ["../listed"]}).to_string());
    let found = find(&home, &["out", "./out/extension.artifact", "named.artifact", "sources"], true);
    assert!(found.problems.is_empty() && found.refused.is_empty(), "{:?} {:?}", found.problems, found.refused);
    let expected = [
        "project/out/extension.artifact",
        "project/named.artifact",
        "project/sources/index.ts",
        "project/.pi/extensions/beside.artifact",
        "project/.pi/extensions/inside/extension.artifact",
        "project/listed/extension.artifact",
    ];
    assert_eq!(order(&home, &found), expected);
    let artifacts: Vec<bool> = found.packages.iter().map(|package| package.artifact_file().is_some()).collect();
    assert_eq!(artifacts, [true, true, false, true, true, true]);
}
