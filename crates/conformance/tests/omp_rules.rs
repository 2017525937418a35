//! Tests that oh-my-pi's own rules load as in oh-my-pi. `fixtures/rules/lock.json` pins its package by version and sha512, and
//! `fixtures/rules/oracle/expected.json` lists its rules; the rules themselves are not in this repository. If the registry cannot
//! be reached, the test prints so and checks nothing.

use pijs_packages::{InstallCode, NpmConfig, PinnedPackage, TarballCache};
use pijs_rules::activity::{self, MAIN_AGENT};
use pijs_rules::file;
use pijs_rules::{Bucket, Format, InterruptMode, Origin, ParsedFile, RuleSettings, Severity, lint};
use pijs_testkit::rule_oracle::Suite;
use serde_json::Value;
use std::path::{Path, PathBuf};

fn fixtures() -> PathBuf {
    pijs_testkit::fixture("rules")
}

fn read(name: &str) -> Value {
    let path = fixtures().join(name);
    serde_json::from_str(&std::fs::read_to_string(path).expect("a fixture")).expect("JSON")
}

/// Fetches the package once, and parses the rules in it; `None` if the registry cannot be reached.
async fn rules() -> Option<Vec<ParsedFile>> {
    let lock = read("lock.json");
    let member = |name: &str| lock["omp"][name].as_str().expect("a text").to_owned();
    let package = PinnedPackage { name: member("name"), version: member("version"), integrity: member("integrity") };
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("omp-rules");
    let depot = TarballCache::open(target.join("tarballs"), NpmConfig::default()).expect("an https client");
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    match depot.unpack(std::slice::from_ref(&package), folder.path()).await {
        Ok(()) => {}
        Err(error) if matches!(error.code, InstallCode::Io | InstallCode::Timeout) => return None,
        Err(error) => panic!("{error}"),
    }
    let rules = folder.path().join("node_modules").join(&package.name).join(member("rules"));
    let mut paths: Vec<PathBuf> =
        std::fs::read_dir(rules).expect("its rules").map(|entry| entry.expect("an entry").path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "md"));
    paths.sort();
    let parse = |path: &PathBuf| {
        let text = std::fs::read_to_string(path).expect("a text");
        file::parse(path, &text, Format::Omp, Origin::BuiltIn)
    };
    Some(paths.iter().map(parse).collect())
}

#[tokio::test]
async fn rules_of_oh_my_pi_load_as_there() {
    let Some(files) = rules().await else {
        std::io::Write::write_all(&mut std::io::stderr(), b"skipped: the npm registry cannot be reached\n").ok();
        return;
    };
    let settings = RuleSettings { enabled: true, ..RuleSettings::default() };
    let expected = read("oracle/expected.json");
    let expected: Vec<&Value> = expected["rules"]
        .as_array()
        .expect("a list")
        .iter()
        .filter(|rule| rule["provider"] == "builtin-defaults")
        .collect();
    let rules: Vec<_> = files.iter().flat_map(|file| &file.rules).collect();
    assert_eq!(rules.len(), 27);
    assert_eq!(
        rules.iter().map(|rule| rule.name.as_str()).collect::<Vec<_>>(),
        expected.iter().filter_map(|rule| rule["name"].as_str()).collect::<Vec<_>>()
    );
    for (rule, expected) in rules.iter().zip(expected) {
        let activity = activity::activity(rule, &settings, Some(MAIN_AGENT));
        assert_eq!((activity.bucket, &expected["bucket"]), (Bucket::Stream, &Value::from("ttsr")), "{}", rule.name);
        assert_eq!(rule.interrupt_mode, Some(InterruptMode::Never), "{}", rule.name);
        assert!(rule.description.is_some() && !rule.content.is_empty(), "{}", rule.name);
    }
    let findings: Vec<String> = lint::lint(&files, &settings)
        .iter()
        .filter(|found| found.severity != Severity::Note)
        .map(|found| found.render())
        .collect();
    assert!(findings.is_empty(), "{}", findings.join("\n\n"));
}

/// The cases of `fixtures/rules/oracle` have the same results as in oh-my-pi, including the cases about oh-my-pi's own rules.
#[tokio::test]
async fn cases_of_oh_my_pi_are_answered_as_there() {
    let Some(files) = rules().await else { return };
    let suite = Suite::new(Some(files.into_iter().flat_map(|file| file.rules).collect()));
    suite.check_rules().expect("the same rules read streams");
    let failed: Vec<String> =
        suite.ids().filter_map(|id| suite.check_case(id).err().map(|why| format!("{id}: {why}"))).collect();
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}
