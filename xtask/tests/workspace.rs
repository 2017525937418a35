//! Tests that the workspace keeps its own rules, and that each check detects a violation.

use std::collections::BTreeSet;
use std::path::Path;
use xtask::circles::{MAX_MODULES, circles, read, too_large};
use xtask::links::{anchors, links, unlisted};
use xtask::messages::messages;
use xtask::picture::{drawing, shown};
use xtask::prose::headless;
use xtask::references::{cited, map, paths, unindexed, unknown_crates};
use xtask::rules::{BANNED, LICENCES, Workspace, directions, foreign, leaves, licensed, says_unsafe};
use xtask::unused::{shared, uses};
use xtask::violation::Violation;

#[test]
fn the_workspace_keeps_its_rules() {
    let violations = Workspace::read().and_then(|workspace| workspace.violations()).expect("cargo metadata");
    let listed: Vec<String> = violations.iter().map(Violation::to_string).collect();
    assert!(listed.is_empty(), "\n{}", listed.join("\n"));
}

#[test]
fn committed_schemas_match_the_types() {
    if pijs_testkit::updates_expected() {
        xtask::codegen::write().expect("schema/ can be written");
    }
    xtask::codegen::check().expect("schema/ is up to date");
}

#[test]
fn a_dependency_upwards_or_sideways_is_reported() {
    assert!(directions("pijs-host", &["pijs-tick", "pijs-protocol", "serde"]).is_empty());
    for (name, used) in [("pijs-tick", "pijs-host"), ("pijs-hostcall", "pijs-engine"), ("pijs-tick", "pijs-artifact")] {
        let found = directions(name, &[used]);
        assert!(matches!(&found[..], [one] if one.place == name && one.what.contains(used)), "{found:?}");
    }
}

#[test]
fn a_crate_without_a_layer_is_reported() {
    assert_eq!(directions("pijs-new", &[]).len(), 1);
}

#[test]
fn only_the_engine_names_rquickjs() {
    assert!(directions("pijs-engine", &["rquickjs"]).is_empty());
    assert_eq!(directions("pijs-realm", &["rquickjs-core"]).len(), 1);
}

#[test]
fn banned_crates_and_a_second_engine_are_reported() {
    assert!(foreign(&["serde", "rquickjs-sys"]).is_empty());
    for banned in BANNED {
        assert_eq!(foreign(&["rquickjs-sys", banned]).len(), 1, "{banned}");
    }
    assert_eq!(foreign(&["rquickjs-sys", "rquickjs-sys"]).len(), 1);
    assert_eq!(foreign(&[]).len(), 1);
}

#[test]
fn licence_expressions_are_read_as_spdx() {
    for good in [
        "MIT",
        "MIT OR GPL-3.0",
        "MIT/Apache-2.0",
        "(MIT OR Apache-2.0) AND Unicode-3.0",
        "Apache-2.0 WITH LLVM-exception",
    ] {
        assert!(licensed(good), "{good}");
    }
    for bad in ["", "GPL-3.0", "MIT AND GPL-3.0", "(GPL-3.0 OR AGPL-3.0) AND MIT", "LGPL-2.1-or-later"] {
        assert!(!licensed(bad), "{bad}");
    }
}

#[test]
fn the_keyword_unsafe_is_detected() {
    for line in [
        "unsafe { f() }",
        "    let x = unsafe { f() };",
        "pub unsafe fn f() {",
        "unsafe impl Send for X {}",
        "#[unsafe(no_mangle)]",
    ] {
        assert!(says_unsafe(line), "{line}");
    }
    for line in ["// unsafe { f() }", "#![deny(unsafe_code)]", r#"let text = "unsafe { f() }";"#, "not_unsafe {"] {
        assert!(!says_unsafe(line), "{line}");
    }
}

/// cargo-deny and the offline check must agree.
#[test]
fn deny_toml_lists_the_same_crates_and_licences() {
    let text = std::fs::read_to_string(xtask::root().join("deny.toml")).expect("deny.toml");
    let section = |name: &str| {
        let (_, rest) = text.split_once(&format!("\n{name} = [\n")).expect(name);
        let (list, _) = rest.split_once("\n]").expect("the list ends");
        let entries: Vec<String> = list.lines().filter_map(|line| Some(line.split('"').nth(1)?.to_owned())).collect();
        entries
    };
    assert_eq!(section("allow"), LICENCES);
    assert_eq!(section("deny"), BANNED);
}

#[test]
fn only_the_attack_suite_has_switches_in_its_guards() {
    let on = ["guard-switches".to_owned()];
    let passed_on = ["pijs-protocol/guard-switches".to_owned()];
    assert!(xtask::rules::switches("pijs-cli", &on).is_some());
    assert!(xtask::rules::switches("pijs-cli", &passed_on).is_some());
    assert!(xtask::rules::switches("pijs-tests", &on).is_none());
    assert!(xtask::rules::switches("pijs-cli", &["derive".to_owned()]).is_none());
}

#[test]
fn a_dependency_is_used_where_a_path_or_an_import_names_it() {
    for code in
        ["use bytes::Bytes;", "let x = bytes::Bytes::new();", "pub use bytes;", "use {std::fs, ::bytes::Bytes};"]
    {
        assert!(uses(&format!("\n{code}"), "bytes"), "{code}");
    }
    for code in ["let bytes = 1;", "crate::bytes::of()", "use my_bytes::X;", "file.bytes()", "mod bytes;"] {
        assert!(!uses(&format!("\n{code}"), "bytes"), "{code}");
    }
    let manifest = "[a]\n[workspace.dependencies]\n# why\nbytes = \"1\"\nserde = { version = \"1\" }\n\n[b]\nc = 1\n";
    assert_eq!(shared(manifest), ["bytes", "serde"]);
}

#[test]
fn an_include_outside_of_its_crate_is_reported() {
    for (file, path) in [("tests/a.rs", "../../b/c.rs"), ("src/a.rs", "../../../x.rs"), ("a.rs", "../x.rs")] {
        assert!(leaves(Path::new(file), path), "{file} {path}");
    }
    for (file, path) in
        [("tests/a/main.rs", "../b/c.rs"), ("src/a.rs", "../tests/x/mod.rs"), ("tests/a.rs", "b/../c.rs")]
    {
        assert!(!leaves(Path::new(file), path), "{file} {path}");
    }
}

#[test]
fn pages_name_crates_and_files_that_exist() {
    let crates = BTreeSet::from(["pijs-tick", "pijs-host", "xtask"]);
    assert!(unknown_crates("x", "`pijs-tick`, pijs-host. `pijs_tick`, pijs-NAME", &crates).is_empty());
    assert_eq!(unknown_crates("x", "pijs-clock", &crates).len(), 1);

    let page = |block: &str| format!("# A\n\n## Crates\n\n```\n{block}\n```\n");
    assert!(map("x", &page("L1  host (of tests)   xtask\nL0' tick"), &crates).is_empty());
    for wrong in ["L1  host   xtask", "L1  host   xtask\nL0  tick   clock", "L1  host   xtask\nL0  tick   host"] {
        assert_eq!(map("x", &page(wrong), &crates).len(), 1, "{wrong}");
    }

    let text = "`crates/a/b.rs`, `tests/NAME.rs` `fixtures/*.toml` `x/y`\n```\n`crates/c`\n```\n`fixtures/README.md`";
    assert_eq!(paths(text), ["crates/a/b.rs", "fixtures/README.md"]);
}

#[test]
fn a_folder_of_fixtures_has_a_row_with_its_runner() {
    let index = "| `fixtures/a/` | cases | `tests/tests/a.rs` | ours |\n| `fixtures/b/` | cases | nobody | ours |\n";
    assert_eq!(unindexed(index, "fixtures/a/"), None);
    assert!(unindexed(index, "fixtures/b/").is_some());
    assert!(unindexed(index, "fixtures/c/").is_some());
}

#[test]
fn links_are_found_outside_of_code() {
    let page = "See [a](a.md#one) and ![b](b.svg \"title\"), not `[c](c.md)`.\n```md\n[d](d.md)\n```\n";
    assert_eq!(links(page), ["a.md#one", "b.svg"]);
}

#[test]
fn headings_become_anchors() {
    let found = anchors("# Tapes\n## `pi tape`, step 1\n```sh\n# not a heading\n```\n");
    assert_eq!(found.into_iter().collect::<Vec<_>>(), ["pi-tape-step-1", "tapes"]);
}

#[test]
fn a_page_missing_from_the_book_is_reported() {
    let pages = ["README.md", "docs/SUMMARY.md", "docs/a.md", "docs/spec/b.md"].map(std::path::PathBuf::from);
    let found = unlisted("- [A](a.md)\n", &pages);
    assert!(matches!(&found[..], [one] if one.what.contains("docs/spec/b.md")), "{found:?}");
}

#[test]
fn the_picture_shows_both_replies_and_the_violated_rule() {
    let printed = "ready\nthe model streams:\n  | a <b>\n\nthe next delta is \"c\"\n\nhostcalls: 4\n";
    assert_eq!(shown(printed), ["the model streams:", "  | a <b>", "", "the next delta is \"c\""]);
    let picture = drawing(printed);
    assert!(picture.contains(">  | a &lt;b&gt;</text>") && !picture.contains("hostcalls"), "{picture}");
}

#[test]
fn a_citation_by_number_is_reported() {
    let text = format!("//! The loop (document{}).\n", " 004, section 3");
    assert!(matches!(&cited("a.rs", &text)[..], [one] if one.place == "a.rs:1"));
    assert!(cited("a.rs", "//! The loop (`docs/spec/tick-loop.md`).\n").is_empty());
}

/// The fixture has one cycle of five modules, through a re-export of its root, a path in a macro and a file of a folder. Imports
/// in tests close no other cycle.
#[test]
fn a_cycle_of_modules_is_found() {
    let files = read(&xtask::root().join("fixtures/circles")).expect("the sources of the fixture");
    let found = circles(&files).expect("it is Rust");
    assert_eq!(found, [["clock", "engine", "queue", "realm", "registry"]]);
    let listed = too_large("pijs-x", &found, &[]);
    assert!(matches!(&listed[..], [one] if one.what.contains("clock, engine, queue, realm, registry")), "{listed:?}");

    let mut apart = files.clone();
    apart.insert("registry.rs".into(), "pub struct Registry;".to_owned());
    assert!(circles(&apart).expect("it is Rust").is_empty());
}

#[test]
fn large_cycles_need_exceptions_and_unneeded_ones_are_reported() {
    let circle = |modules: usize| vec![(0..modules).map(|number| format!("m{number}")).collect::<Vec<_>>()];
    let exceptions = [("pijs-x", MAX_MODULES + 2, "a reason")];
    assert!(too_large("pijs-x", &circle(MAX_MODULES), &[]).is_empty());
    assert_eq!(too_large("pijs-x", &circle(MAX_MODULES + 1), &[]).len(), 1);
    assert!(too_large("pijs-x", &circle(MAX_MODULES + 2), &exceptions).is_empty());
    assert_eq!(too_large("pijs-x", &circle(MAX_MODULES + 3), &exceptions).len(), 1);
    assert_eq!(too_large("pijs-y", &circle(MAX_MODULES + 1), &exceptions).len(), 1);
    assert_eq!(too_large("pijs-x", &circle(MAX_MODULES), &exceptions).len(), 1);
}

#[test]
fn a_comment_without_a_subject_is_counted() {
    let counted =
        "/// What waits.\nfn a() {}\n// Which.\nlet a = 1;\n/** The same for b. */\n/// A.\n///\n/// Who reads it.\n";
    assert_eq!(headless(counted), [1, 3, 5, 8]);
    let others = "/// Returns the rest.\n/// Where it ends, the text stays.\n// Whatever follows.\nlet what = \"// What\";\n// One word. Two.\n";
    assert!(headless(others).is_empty());
}

#[test]
fn messages_are_the_literals_that_users_may_read() {
    let source = r#"
        /// Options.
        #[derive(clap::Args)]
        struct Options {
            /// Leave the cache out.
            #[arg(long, help = "no cache at all")]
            no_cache: bool,
        }
        #[derive(thiserror::Error)]
        enum Error {
            #[error("{0} is not here")]
            Missing(String),
        }
        fn run(path: &str) -> Result<(), String> {
            path.find("two words").expect("it is always there");
            assert!(path.is_empty(), "this one is empty");
            db.query("SELECT name FROM entries");
            Err(format!("{path}: cannot be read"))
        }
        #[cfg(test)]
        mod tests {
            fn text() -> &'static str { "only tests read this" }
        }
    "#;
    let found = messages(source).expect("it is Rust");
    let texts: Vec<&str> = found.iter().map(|message| message.text.as_str()).collect();
    assert_eq!(texts, ["Leave the cache out.", "no cache at all", "{0} is not here", "{path}: cannot be read"]);
    assert_eq!(found[3].owner, "run");
}

/// Collects every text that a user may read on one page. `INSTA_UPDATE=always` rewrites it; review the difference before you
/// commit it.
#[test]
fn messages_match_the_snapshot() {
    let table = xtask::messages::table().expect("the sources are Rust");
    insta::with_settings!({ prepend_module_to_snapshot => false, omit_expression => true }, {
        insta::assert_snapshot!("messages", table);
    });
}
