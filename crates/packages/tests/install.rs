//! Tests installing from a loopback registry and from folders: successes, refusals, and the state after a refusal.

mod support;

use pijs_packages::{
    BuildInput, BuildReport, InstallCode, InstallLimits, InstallScope, Installer, NpmConfig, PackageError,
};
use pijs_testkit::registry::{Registry, Reply, gzip, integrity};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use support::{Home, all, fixtures, npm};

fn settings(home: &Home) -> Value {
    serde_json::from_slice(&std::fs::read(home.agent().join("settings.json")).expect("settings")).expect("json")
}

fn lock(home: &Home) -> Value {
    serde_json::from_slice(&std::fs::read(home.agent().join("pijs-lock.json")).expect("a lock file")).expect("json")
}

/// Expects an install to fail with `code` and to change nothing.
async fn refused(home: &Home, installer: &Installer, source: &str, code: InstallCode) -> PackageError {
    let before = home.state(InstallScope::User);
    let error = installer.install(source, InstallScope::User).await.expect_err("it should be refused");
    assert_eq!(error.code, code, "{error}");
    let mut after = home.state(InstallScope::User);
    // An empty store is equal to no store.
    after
        .retain(|path, _| before.contains_key(path) || !matches!(path.as_str(), "npm/.gitignore" | "npm/package.json"));
    assert_eq!(before.keys().collect::<Vec<_>>(), after.keys().collect::<Vec<_>>());
    assert_eq!(before, after);
    assert_eq!(home.staging(InstallScope::User), 0, "staging is left behind");
    error
}

#[tokio::test]
async fn pi_ttsr_installs_by_its_bare_name() {
    let (home, registry) = (Home::new(), Registry::start().with_fixtures(&fixtures()));
    let installed = home.installer(&registry).install("pi-ttsr", InstallScope::User).await.expect("installed");
    assert_eq!(installed.id, "npm:pi-ttsr");
    assert_eq!(installed.version.as_deref(), Some("1.0.0"));
    assert_eq!(installed.path, home.agent().join("npm/node_modules/pi-ttsr"));
    assert_eq!(installed.entries, [installed.path.join("extensions/ttsr/index.ts")]);
    for file in [
        "package.json",
        "README.md",
        "extensions/ttsr/loader.ts",
        "extensions/ttsr/matcher.ts",
        "extensions/ttsr/state.ts",
    ] {
        let original = std::fs::read(fixtures().join("pi-ttsr").join(file)).expect("fixture");
        assert_eq!(std::fs::read(installed.path.join(file)).expect(file), original, "{file}");
    }
    assert_eq!(settings(&home), json!({"packages": ["npm:pi-ttsr"]}));
    assert_eq!(registry.requests().iter().filter(|request| request.path.contains("pi-coding-agent")).count(), 0);
}

#[tokio::test]
async fn dependencies_come_along_scoped_and_nested() {
    let (home, registry) = (Home::new(), Registry::start().with_fixtures(&fixtures()));
    let installer = home.installer(&registry);
    let cjs = installer.install("npm:greets-cjs@^1", InstallScope::User).await.expect("installed");
    assert_eq!(cjs.dependencies, 2);
    assert!(cjs.path.join("node_modules/tiny-words/lib/index.js").is_file());
    assert!(cjs.path.join("node_modules/tiny-case/index.js").is_file(), "hoisted");
    let esm = installer.install("npm:greets-esm", InstallScope::User).await.expect("installed");
    assert!(esm.path.join("node_modules/@tiny/colors/dist/index.js").is_file());
    assert_eq!(settings(&home), json!({"packages": ["npm:greets-cjs@^1", "npm:greets-esm"]}));
}

#[tokio::test]
async fn a_range_picks_the_highest_version_that_fits() {
    let (home, registry) = (Home::new(), Registry::start());
    for version in ["1.0.0", "1.2.0", "1.10.0", "2.0.0", "3.0.0-beta.1"] {
        registry.publish_extension("ranged", version, json!({}));
    }
    registry.edit("ranged", |document| document["dist-tags"] = json!({"latest": "2.0.0", "next": "3.0.0-beta.1"}));
    for (source, version) in
        [("ranged@^1", "1.10.0"), ("ranged@1.2.0", "1.2.0"), ("ranged@~1.2", "1.2.0"), ("ranged@next", "3.0.0-beta.1")]
    {
        let installed = Home::new().installer(&registry).install(source, InstallScope::User).await.expect(source);
        assert_eq!(installed.version.as_deref(), Some(version), "{source}");
    }
    let error = refused(&home, &home.installer(&registry), "ranged@^9", InstallCode::Source).await;
    assert!(error.to_string().contains("2.0.0"), "{error}");
}

#[tokio::test]
async fn two_versions_of_a_dependency_are_each_found_by_their_dependents() {
    let (home, registry) = (Home::new(), Registry::start());
    for version in ["1.0.0", "2.0.0"] {
        registry.publish(json!({"name": "leaf", "version": version}), &[("index.js", version)]);
    }
    registry.publish(json!({"name": "old", "version": "1.0.0", "dependencies": {"leaf": "^1"}}), &[]);
    registry.publish_extension("needs-both", "1.0.0", json!({"leaf": "^2", "old": "*"}));
    let installed = home.installer(&registry).install("needs-both", InstallScope::User).await.expect("installed");
    let leaf = |path: &str| std::fs::read_to_string(installed.path.join(path).join("index.js")).expect("there");
    assert_eq!(leaf("node_modules/leaf"), "2.0.0");
    assert_eq!(leaf("node_modules/old/node_modules/leaf"), "1.0.0");
}

#[tokio::test]
async fn optional_dependencies_that_fail_are_left_out_and_named() {
    let (home, registry) = (Home::new(), Registry::start());
    registry.publish(json!({"name": "native", "version": "1.0.0", "os": ["linux"]}), &[]);
    let manifest = json!({"name": "hopeful", "version": "1.0.0", "pi": {"extensions": ["./index.ts"]}, "optionalDependencies": {"native": "*", "nowhere": "*"}});
    registry.publish(manifest, &[("index.ts", "")]);
    let installed = home.installer(&registry).install("hopeful", InstallScope::User).await.expect("installed");
    assert_eq!(installed.dependencies, 0);
    assert!(
        ["native", "nowhere"].iter().all(|name| installed.warnings.iter().any(|warning| warning.contains(name))),
        "{:?}",
        installed.warnings
    );
}

#[tokio::test]
async fn an_unavailable_peer_is_skipped_with_a_note() {
    let (home, registry) = (Home::new(), Registry::start());
    let manifest = json!({"name": "social", "version": "1.0.0", "pi": {"extensions": ["./index.ts"]}, "peerDependencies": {"nowhere": "^2"}});
    registry.publish(manifest, &[("index.ts", "")]);
    let installed = home.installer(&registry).install("social", InstallScope::User).await.expect("installed");
    assert_eq!(installed.dependencies, 0);
    let named = |warning: &String| warning.contains("peer of social") && warning.contains("nowhere");
    assert!(installed.warnings.iter().any(named), "{:?}", installed.warnings);
}

#[tokio::test]
async fn the_lock_restores_the_same_bytes_although_the_registry_moved_on() {
    let (home, registry) = (Home::new(), Registry::start().with_fixtures(&fixtures()));
    let installer = home.installer(&registry);
    installer.install("greets-cjs", InstallScope::User).await.expect("installed");
    let before = home.state(InstallScope::User);
    assert!(
        !String::from_utf8_lossy(&before["pijs-lock.json"]).contains("/tiny-words-1.2.0.tgz\"\n\"http"),
        "relative tarballs"
    );
    registry.publish(json!({"name": "tiny-words", "version": "1.9.0", "main": "index.js"}), &[("index.js", "")]);
    std::fs::remove_dir_all(home.agent().join("npm")).expect("removed");
    let restored = all(installer.restore(InstallScope::User).await).expect("restored");
    assert_eq!(restored.len(), 1);
    assert_eq!(home.state(InstallScope::User), before);
    assert!(installer.restore(InstallScope::User).await.expect("nothing to do").is_empty());
}

#[tokio::test]
async fn an_edited_lock_is_found() {
    let (home, registry) = (Home::new(), Registry::start().with_fixtures(&fixtures()));
    let installer = home.installer(&registry);
    installer.install("greets-cjs", InstallScope::User).await.expect("installed");
    std::fs::remove_dir_all(home.agent().join("npm")).expect("removed");
    let path = home.agent().join("pijs-lock.json");
    let good = std::fs::read_to_string(&path).expect("a lock file");
    let tree = lock(&home)["packages"]["npm:greets-cjs"]["tree"].as_str().expect("a digest").to_owned();
    let cases = [
        (good.replace("sha512-", "sha512-AAAA"), InstallCode::Integrity),
        (good.replace(&tree, &"0".repeat(64)), InstallCode::Integrity),
        (good.replace("\"npm:greets-cjs\": {", "\"npm:__proto__\": {"), InstallCode::Manifest),
        (good.replace("\"registries\": {", "\"registries\": {\"\": \"http://a/\","), InstallCode::Manifest),
        (good.replace("\"node_modules/tiny-case\"", "\"node_modules/../../tiny-case\""), InstallCode::Manifest),
        (good.replace(registry.url().as_str(), "https://elsewhere.example/"), InstallCode::Source),
    ];
    for (edited, code) in cases {
        assert_ne!(edited, good);
        std::fs::write(&path, &edited).expect("written");
        assert_eq!(all(installer.restore(InstallScope::User).await).expect_err("refused").code, code);
    }
}

#[tokio::test]
async fn integrity_is_required_strong_and_verified() {
    let (home, registry) = (Home::new(), Registry::start());
    let manifest = json!({"name": "bad", "version": "1.0.0", "pi": {"extensions": ["./index.ts"]}});
    let other = integrity(b"other bytes");
    for dist in [
        json!({"integrity": other}),
        json!({}),
        json!({"integrity": ""}),
        json!({"integrity": "sha1-2jmj7l5rSw0yVb/vlWAYkK/YBwk="}),
        json!({"integrity": format!("sha1-2jmj7l5rSw0yVb/vlWAYkK/YBwk= {other}")}),
        json!({"integrity": "nonsense"}),
    ] {
        registry.publish(manifest.clone(), &[("index.ts", "")]);
        registry.edit("bad", |document| {
            let mut dist = dist;
            dist["tarball"] = document["versions"]["1.0.0"]["dist"]["tarball"].clone();
            dist["shasum"] = json!("da39a3ee5e6b4b0d3255bfef95601890afd80709");
            document["versions"]["1.0.0"]["dist"] = dist;
        });
        refused(&home, &home.installer(&registry), "bad", InstallCode::Integrity).await;
    }
}

#[tokio::test]
async fn other_bytes_under_a_locked_version_and_steps_back_are_refused() {
    let (home, registry) = (Home::new(), Registry::start());
    registry.publish_extension("moves", "1.1.0", json!({}));
    let installer = home.installer(&registry);
    installer.install("moves", InstallScope::User).await.expect("installed");
    registry.publish(
        json!({"name": "moves", "version": "1.1.0", "pi": {"extensions": ["./index.ts"]}}),
        &[("index.ts", "/* changed */")],
    );
    refused(&home, &installer, "moves", InstallCode::Integrity).await;
    registry.publish_extension("moves", "1.0.0", json!({}));
    registry.edit("moves", |document| drop(document["versions"].as_object_mut().expect("versions").remove("1.1.0")));
    refused(&home, &installer, "moves", InstallCode::Integrity).await;
    let older = installer.install("moves@1.0.0", InstallScope::User).await.expect("the version is given");
    assert_eq!(older.version.as_deref(), Some("1.0.0"));
}

#[tokio::test]
async fn a_redirect_to_another_registry_is_not_followed() {
    let (home, registry, other) = (Home::new(), Registry::start(), Registry::start());
    other.publish_extension("away", "1.0.0", json!({}));
    for to in [format!("{}away", other.url()), "http://169.254.169.254/latest".to_owned(), "ftp://host/x".to_owned()] {
        registry.reply("/away", Reply::Redirect(to));
        refused(&home, &home.installer(&registry), "away", InstallCode::Source).await;
    }
    assert!(other.requests().is_empty());
    registry.reply("/away", Reply::Redirect("/away".to_owned()));
    refused(&home, &home.installer(&registry), "away", InstallCode::Source).await;

    registry.publish_extension("tarball-away", "1.0.0", json!({}));
    registry.edit("tarball-away", |document| {
        document["versions"]["1.0.0"]["dist"]["tarball"] = json!(format!("{}x.tgz", other.url()))
    });
    refused(&home, &home.installer(&registry), "tarball-away", InstallCode::Source).await;
    assert!(other.requests().is_empty());
}

#[tokio::test]
async fn a_registry_that_is_down_silent_or_wrong_is_named() {
    let home = Home::new();
    let down = {
        let gone = Registry::start();
        npm(&gone)
    };
    let error = refused(&home, &home.installer_for(down), "any", InstallCode::Io).await;
    assert!(error.help.is_some());

    let registry = Registry::start();
    let error = refused(&home, &home.installer(&registry), "nowhere", InstallCode::Source).await;
    assert!(error.to_string().contains("does not have it"), "{error}");
    for (reply, code) in [
        (Reply::Status(401), InstallCode::Source),
        (Reply::Status(500), InstallCode::Io),
        (Reply::Body { content_type: "text/html", bytes: b"<html>".to_vec() }, InstallCode::Format),
        (Reply::Body { content_type: "application/json", bytes: vec![b'['; 1_000_000] }, InstallCode::Format),
        (Reply::Body { content_type: "application/json", bytes: b"{\"versions\": []}".to_vec() }, InstallCode::Format),
    ] {
        registry.reply("/wrong", reply);
        refused(&home, &home.installer(&registry), "wrong", code).await;
    }
    let limited = |limits: InstallLimits| {
        Installer::with_limits(home.dirs(), npm(&registry), Arc::new(support::accept), limits).expect("an installer")
    };
    registry.reply("/silent", Reply::Silence);
    let impatient = limited(InstallLimits { idle: Duration::from_millis(200), ..InstallLimits::default() });
    refused(&home, &impatient, "silent", InstallCode::Timeout).await;
    registry.reply("/huge", Reply::Body { content_type: "application/json", bytes: vec![b' '; 2_000] });
    let small = limited(InstallLimits { metadata: 1_000, ..InstallLimits::default() });
    refused(&home, &small, "huge", InstallCode::Size).await;
}

#[tokio::test]
async fn tokens_go_to_their_registry_and_scopes_to_theirs() {
    let (home, public, private) = (Home::new(), Registry::start(), Registry::start());
    public.publish_extension("@corp/tool", "9.0.0", json!({}));
    private.publish_extension("@corp/tool", "1.0.0", json!({}));
    let place = private.url().replace("http:", "");
    let npmrc = format!("registry={}\n@corp:registry={}\n{place}:_authToken=${{T}}\n", public.url(), private.url());
    let config = NpmConfig::parse(&npmrc, &|name| (name == "T").then(|| "hush".to_owned())).expect("a configuration");
    let installed = home.installer_for(config).install("@corp/tool", InstallScope::User).await.expect("installed");
    assert_eq!(installed.version.as_deref(), Some("1.0.0"));
    assert!(private.requests().iter().all(|request| request.authorization.as_deref() == Some("Bearer hush")));
    assert!(public.requests().is_empty());
    // The lock file records the registry, even without the scope's line in `.npmrc`.
    refused(&home, &home.installer(&public), "@corp/tool", InstallCode::Source).await;
}

#[tokio::test]
async fn a_tarball_that_differs_from_its_registry_entry_is_refused() {
    let (home, registry) = (Home::new(), Registry::start());
    let files = |manifest: &Value, extra: &[(&str, &str)]| {
        let mut files = std::collections::BTreeMap::from([(
            "package.json".to_owned(),
            serde_json::to_vec(manifest).expect("json"),
        )]);
        files.extend(extra.iter().map(|(path, text)| ((*path).to_owned(), text.as_bytes().to_vec())));
        pijs_testkit::registry::pack(&files)
    };
    let good = json!({"name": "odd", "version": "1.0.0", "pi": {"extensions": ["./index.ts"]}});
    let index = ("index.ts", "");
    let mut hidden = good.clone();
    hidden["dependencies"] = json!({"evil": "*"});
    for (tarball, code) in [
        (files(&json!({"name": "other", "version": "1.0.0"}), &[index]), InstallCode::Manifest),
        (files(&json!({"name": "odd", "version": "1.0.1"}), &[index]), InstallCode::Manifest),
        (files(&hidden, &[index]), InstallCode::Manifest),
        (files(&good, &[index, ("node_modules/typebox/index.js", "")]), InstallCode::Manifest),
        (files(&good, &[index, ("node_modules/left/index.js", "")]), InstallCode::Manifest),
        (
            files(&json!({"name": "odd", "version": "1.0.0", "pi": {"extensions": ["../../x.ts"]}}), &[index]),
            InstallCode::Manifest,
        ),
        (
            files(&json!({"name": "odd", "version": "1.0.0", "pi": {"extensions": ["/etc/x.ts"]}}), &[index]),
            InstallCode::Manifest,
        ),
        (gzip(&[0; 1024]), InstallCode::Format),
        (b"no archive".to_vec(), InstallCode::Format),
    ] {
        registry.publish_tarball(&good, &tarball, |_| {});
        refused(&home, &home.installer(&registry), "odd", code).await;
    }
}

#[tokio::test]
async fn a_package_without_resources_is_installed_with_a_warning() {
    let (home, registry) = (Home::new(), Registry::start());
    registry.publish(json!({"name": "silent", "version": "1.0.0", "main": "index.js"}), &[("index.js", "")]);
    let installed = home.installer(&registry).install("silent", InstallScope::User).await.expect("installed");
    assert!(installed.entries.is_empty());
    assert!(
        installed.warnings.iter().any(|warning| warning.contains("it contains nothing that pi loads")),
        "{installed:?}"
    );
    let resource = json!({"name": "skilled", "version": "1.0.0"});
    registry.publish(resource, &[("skills/a/SKILL.md", "---\nname: a\ndescription: b\n---\n")]);
    let installed = home.installer(&registry).install("skilled", InstallScope::User).await.expect("installed");
    assert_eq!(installed.warnings, Vec::<String>::new());
}

#[tokio::test]
async fn invalid_names_and_sources_are_refused_before_any_request() {
    let (home, registry) = (Home::new(), Registry::start());
    let installer = home.installer(&registry);
    let long = "n".repeat(300);
    for name in [
        "npm:../x",
        "npm:__proto__",
        "constructor",
        "npm:.bin",
        &long,
        "npm:Upper",
        "npm:node_modules",
        "npm:pi-ttsr\u{430}",
        "npm:",
        "npm:@scope",
    ] {
        refused(&home, &installer, name, InstallCode::Name).await;
    }
    for source in [
        "git:github.com/a/b",
        "https://host/a.git",
        "git:--upload-pack=touch x",
        "git:ext::sh -c x",
        "npm:a@not a range",
        "./nowhere",
        "/nowhere",
    ] {
        refused(&home, &installer, source, InstallCode::Source).await;
    }
    assert!(registry.requests().is_empty());
}

#[tokio::test]
async fn scripts_never_run_and_are_named() {
    let (home, registry) = (Home::new(), Registry::start());
    let marker = home.project().join("marker");
    let touch = format!("touch {}", marker.display());
    let manifest = json!({
        "name": "scripted", "version": "1.0.0", "pi": {"extensions": ["./index.ts"]},
        "scripts": {"preinstall": touch, "install": touch, "postinstall": touch, "prepare": touch, "test": "true"},
    });
    registry.publish(
        manifest,
        &[("index.ts", ""), ("binding.gyp", "{}"), (".npmrc", "registry=http://evil.example/\nscript-shell=./evil")],
    );
    let installed = home.installer(&registry).install("scripted", InstallScope::User).await.expect("installed");
    assert!(!marker.exists());
    let reported: Vec<_> = installed.warnings.iter().filter(|warning| warning.starts_with("IN_SCRIPT")).collect();
    assert_eq!(reported.len(), 4, "{reported:?}");
    assert!(
        !reported.iter().any(|warning| warning.contains("prepare")),
        "what a registry has is prepared: {reported:?}"
    );
}

#[tokio::test]
async fn a_package_that_does_not_build_is_not_put_in_place() {
    let (home, registry) = (Home::new(), Registry::start());
    registry.publish_extension("fragile", "1.0.0", json!({}));
    home.installer(&registry).install("fragile", InstallScope::User).await.expect("installed");
    registry.publish_extension("fragile", "1.1.0", json!({}));
    let broken = |input: &BuildInput| -> Result<BuildReport, PackageError> {
        assert!(input.entries.iter().all(|entry| entry.is_file()));
        Err(PackageError::new(InstallCode::Build, &input.id, "a syntax error"))
    };
    let installer = Installer::new(home.dirs(), npm(&registry), Arc::new(broken)).expect("an installer");
    refused(&home, &installer, "fragile", InstallCode::Build).await;
    let folder = home.project().join("ext");
    std::fs::create_dir(&folder).expect("created");
    std::fs::write(folder.join("index.ts"), "").expect("written");
    refused(&home, &installer, "./ext", InstallCode::Build).await;
}

#[tokio::test]
async fn a_reinstall_replaces_list_shows_and_remove_clears() {
    let (home, registry) = (Home::new(), Registry::start());
    registry.publish_extension("@me/tool", "1.0.0", json!({}));
    let installer = home.installer(&registry);
    let first = installer.install("@me/tool", InstallScope::User).await.expect("installed");
    std::fs::write(first.path.join("stray.ts"), "").expect("written");
    registry.publish_extension("@me/tool", "1.1.0", json!({}));
    let second = installer.install("npm:@me/tool@^1.1", InstallScope::User).await.expect("installed");
    assert_eq!((&second.path, second.version.as_deref()), (&first.path, Some("1.1.0")));
    assert!(!first.path.join("stray.ts").exists(), "the old folder is gone");
    assert_eq!(settings(&home), json!({"packages": ["npm:@me/tool@^1.1"]}));

    let listed = installer.list().expect("listed");
    assert_eq!(listed.len(), 1);
    assert_eq!(
        (listed[0].id.as_str(), listed[0].version.as_deref(), listed[0].present),
        ("npm:@me/tool", Some("1.1.0"), true)
    );

    let error = installer.remove("npm:other", InstallScope::User).expect_err("not installed");
    assert_eq!(error.code, InstallCode::Source);
    installer.remove("@me/tool", InstallScope::User).expect("removed");
    assert!(!home.agent().join("npm/node_modules/@me").exists());
    assert_eq!(settings(&home), json!({"packages": []}));
    assert_eq!(lock(&home)["packages"], json!({}));
}

#[tokio::test]
async fn settings_keep_other_keys_and_a_backup() {
    let (home, registry) = (Home::new(), Registry::start().with_fixtures(&fixtures()));
    let text = "{\n  \"zeta\": 1,\n  \"packages\": [\n    {\n      \"source\": \"npm:pi-ttsr@^0.9\",\n      \"skills\": []\n    },\n    \"../mine\"\n  ],\n  \"alpha\": {\n    \"b\": 1.5,\n    \"a\": null\n  }\n}\n";
    let path = home.agent().join("settings.json");
    std::fs::write(&path, text).expect("written");
    home.installer(&registry).install("pi-ttsr@^1", InstallScope::User).await.expect("installed");
    assert_eq!(std::fs::read_to_string(&path).expect("settings"), text.replace("@^0.9", "@^1"));
    assert_eq!(std::fs::read_to_string(home.agent().join("settings.json.bak")).expect("a backup"), text);

    for broken in ["{", "[]", "{\"packages\": 1}"] {
        std::fs::write(&path, broken).expect("written");
        refused(&home, &home.installer(&registry), "greets-cjs", InstallCode::Manifest).await;
    }
}

#[tokio::test]
async fn a_folder_is_listed_where_it_is_and_never_copied() {
    let (home, registry) = (Home::new(), Registry::start());
    let folder = home.project().join("tools/mine");
    std::fs::create_dir_all(&folder).expect("created");
    let installer = home.installer(&registry);
    refused(&home, &installer, "./tools/mine", InstallCode::Manifest).await;
    std::fs::write(folder.join("index.ts"), "").expect("written");
    for spelling in ["./tools/mine", "tools/../tools/mine"] {
        let installed = installer.install(spelling, InstallScope::User).await.expect("installed");
        assert_eq!(installed.path, folder);
        assert_eq!(settings(&home), json!({"packages": ["../project/tools/mine"]}));
    }
    installer.remove("tools/mine", InstallScope::User).expect("removed");
    assert!(folder.join("index.ts").exists());

    installer.install("tools/mine", InstallScope::Project).await.expect("installed");
    let local: Value =
        serde_json::from_slice(&std::fs::read(home.project().join(".pi/settings.json")).expect("settings"))
            .expect("json");
    assert_eq!(local, json!({"packages": ["../tools/mine"]}));
}

#[cfg(unix)]
#[tokio::test]
async fn a_project_that_points_its_store_elsewhere_is_refused() {
    let (home, registry) = (Home::new(), Registry::start().with_fixtures(&fixtures()));
    let outside = home.project().join("outside");
    std::fs::create_dir_all(&outside).expect("created");
    std::fs::create_dir(home.project().join(".pi")).expect("created");
    std::os::unix::fs::symlink(&outside, home.project().join(".pi/npm")).expect("linked");
    let error = home.installer(&registry).install("pi-ttsr", InstallScope::Project).await.expect_err("refused");
    assert_eq!(error.code, InstallCode::Link);
    assert_eq!(std::fs::read_dir(&outside).expect("there").count(), 0);
}

#[tokio::test]
async fn a_home_that_cannot_be_written_is_named() {
    let (home, registry) = (Home::new(), Registry::start().with_fixtures(&fixtures()));
    // Uses a file in place of the folder, because permissions do not restrict root.
    let mut dirs = home.dirs();
    dirs.agent_dir = dirs.home.join("file/agent");
    std::fs::write(dirs.home.join("file"), "").expect("written");
    let installer = Installer::new(dirs, npm(&registry), Arc::new(support::accept)).expect("an installer");
    let error = installer.install("pi-ttsr", InstallScope::User).await.expect_err("refused");
    assert_eq!(error.code, InstallCode::Io, "{error}");
    assert!(error.subject.contains("file/agent"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn installs_at_the_same_time_all_arrive() {
    let (home, registry) = (Home::new(), Registry::start());
    let names: Vec<String> = (0..8).map(|i| format!("side-{i}")).collect();
    for name in &names {
        registry.publish_extension(name, "1.0.0", json!({}));
    }
    let mut running = tokio::task::JoinSet::new();
    for name in names.iter().chain(&names) {
        let (installer, name) = (home.installer(&registry), name.clone());
        running.spawn(async move { installer.install(&name, InstallScope::User).await });
    }
    while let Some(done) = running.join_next().await {
        done.expect("no panic").expect("installed");
    }
    let mut listed: Vec<String> = home
        .installer(&registry)
        .list()
        .expect("listed")
        .into_iter()
        .filter(|listed| listed.present)
        .map(|listed| listed.id)
        .collect();
    listed.sort();
    assert_eq!(listed, names.iter().map(|name| format!("npm:{name}")).collect::<Vec<_>>());
    assert_eq!(lock(&home)["packages"].as_object().expect("packages").len(), names.len());
    assert_eq!(home.staging(InstallScope::User), 0);
}
