//! An install that fails, or is killed, between any two steps.
//!
//! Failing: everything is as before. Killed (a real process, `abort`): the package is whole, old or new, settings and
//! lock can be read, and the next install completes.

#[expect(dead_code, reason = "each test binary uses its own part")]
mod support;

use pijs_packages::{Faults, Installer, Scope, Step};
use serde_json::json;
use std::io;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use support::Home;
use support::registry::Registry;

const STEPS: [Step; 5] = [Step::Staged, Step::Built, Step::Placed, Step::Locked, Step::Settled];

struct FailAfter(Step);

impl Faults for FailAfter {
    fn after(&self, step: Step) -> io::Result<()> {
        if step == self.0 { Err(io::Error::from(io::ErrorKind::StorageFull)) } else { Ok(()) }
    }
}

struct DieAfter(Step);

impl Faults for DieAfter {
    fn after(&self, step: Step) -> io::Result<()> {
        if step == self.0 { std::process::abort() } else { Ok(()) }
    }
}

#[tokio::test]
async fn a_failure_after_any_step_undoes_the_ones_before() {
    let registry = Registry::start();
    registry.publish_extension("steady", "1.0.0", json!({}));
    let (fresh, upgraded) = (Home::new(), Home::new());
    upgraded.installer(&registry).install("steady", Scope::User).await.expect("installed");
    registry.publish_extension("steady", "1.1.0", json!({}));
    for step in STEPS {
        for home in [&fresh, &upgraded] {
            let before = home.state(Scope::User);
            let installer = home.installer(&registry).faults(Arc::new(FailAfter(step)));
            installer.install("steady@^1", Scope::User).await.expect_err("the fault");
            let mut after = home.state(Scope::User);
            after.retain(|path, _| {
                before.contains_key(path) || !matches!(path.as_str(), "npm/.gitignore" | "npm/package.json")
            });
            assert_eq!(before, after, "after {step:?}");
            assert_eq!(home.staging(Scope::User), 0, "after {step:?}");
        }
    }
    upgraded.installer(&registry).install("steady@^1", Scope::User).await.expect("without faults it goes through");
}

#[tokio::test]
async fn a_kill_after_any_step_leaves_a_whole_package_and_the_next_install_completes() {
    let registry = Registry::start();
    for step in STEPS {
        registry.publish_extension("steady", "1.0.0", json!({}));
        let home = Home::new();
        home.installer(&registry).install("steady", Scope::User).await.expect("installed");
        registry.publish_extension("steady", "1.1.0", json!({}));
        let killed = Command::new(std::env::current_exe().expect("this test"))
            .args(["--exact", "killed_child", "--ignored", "--test-threads=1"])
            .env("PIJS_TEST_HOME", home.agent().parent().expect("a folder"))
            .env("PIJS_TEST_REGISTRY", registry.url())
            .env("PIJS_TEST_STEP", format!("{step:?}"))
            .output()
            .expect("the child runs");
        assert!(!killed.status.success(), "{step:?}: it should have died");

        let listed = home.installer(&registry).list().expect("settings can be read");
        let version = listed[0].version.clone().expect("a whole package");
        let expected = if matches!(step, Step::Staged | Step::Built) { "1.0.0" } else { "1.1.0" };
        assert_eq!(version, expected, "after {step:?}");
        assert!(listed[0].path.join("index.ts").is_file());

        let installed = home.installer(&registry).install("steady", Scope::User).await.expect("the next one completes");
        assert_eq!(installed.version.as_deref(), Some("1.1.0"));
        assert_eq!(home.staging(Scope::User), 0, "what the killed one left is swept");
    }
}

/// Not a test: the process that `a_kill_after_any_step...` kills.
#[ignore = "started by another test"]
#[tokio::test]
async fn killed_child() {
    let base = PathBuf::from(std::env::var_os("PIJS_TEST_HOME").expect("started by another test"));
    let step = std::env::var("PIJS_TEST_STEP").expect("set");
    let step = STEPS.into_iter().find(|known| format!("{known:?}") == step).expect("a step");
    let dirs =
        pijs_packages::Dirs { agent_dir: base.join("agent"), cwd: base.join("project"), home: base.join("home") };
    let npmrc = format!("registry={}", std::env::var("PIJS_TEST_REGISTRY").expect("set"));
    let config = pijs_packages::NpmConfig::parse(&npmrc, &|_| None).expect("a registry");
    let installer =
        Installer::new(dirs, config, Arc::new(support::accept)).expect("an installer").faults(Arc::new(DieAfter(step)));
    let _ = installer.install("steady", Scope::User).await;
    unreachable!("it dies before");
}
