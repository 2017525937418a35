//! Runs the commands of `README.md` and of the pages of `docs/guide` as a reader would type them.
//!
//! A page is a script. A block with `file=NAME` after its kind writes a file of the project. A block of the kind `console` has
//! commands after `$ `, each followed by lines that must be in the output of the latest command. A command must exit with 0
//! unless ` # ends with N` follows it. Blocks of other kinds are not run, because they need a network, a key or a user.

mod support;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use support::{World, run};

/// Defines a test for each page, which runs in its own home and project.
macro_rules! pages {
    ($($test:ident: $page:literal),* $(,)?) => {
        const PAGES: &[&str] = &[$($page),*];

        $(
            #[test]
            fn $test() {
                follow($page);
            }
        )*
    };
}

pages! {
    readme: "README.md",
    inspecting: "docs/guide/inspecting.md",
    mcp: "docs/guide/mcp.md",
    models: "docs/guide/models.md",
    permissions: "docs/guide/permissions.md",
    rules: "docs/guide/rules.md",
    rummy: "docs/guide/rummy.md",
    tapes: "docs/guide/tapes.md",
    testing_extensions: "docs/guide/testing-extensions.md",
    troubleshooting: "docs/guide/troubleshooting.md",
    using: "docs/guide/using.md",
    writing_extensions: "docs/guide/writing-extensions.md",
}

/// Pages with commands that need resources that a test does not have.
const NOT_RUN: &[(&str, &str)] = &[
    ("docs/guide/components.md", "it builds a component with the tools of another language"),
    ("docs/guide/embedding.md", "tests of `pijs-runtime` and `pijs-host` run its examples"),
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Returns the fenced blocks of a page: the text after the fence, and the lines.
fn blocks(page: &str) -> Vec<(String, String)> {
    let mut blocks = Vec::new();
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        if let Some(kind) = line.strip_prefix("```") {
            let text: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
            blocks.push((kind.to_owned(), text.join("\n")));
        }
    }
    blocks
}

/// Writes the files of a page, runs its commands, and compares their output.
fn follow(page: &str) {
    let world = World::new();
    let text = fs::read_to_string(root().join(page)).expect("the page");
    let mut commands = 0;
    for (kind, block) in blocks(&text) {
        if let Some((_, file)) = kind.split_once("file=") {
            world.write(&format!("project/{file}"), block + "\n");
        } else if kind == "console" {
            commands += type_in(&world, page, &block);
        }
    }
    assert!(commands > 0, "{page} has no `console` block");
}

/// Runs the commands of a block and returns their number.
fn type_in(world: &World, page: &str, block: &str) -> usize {
    let programs = Path::new(env!("CARGO_BIN_EXE_pi")).parent().expect("a folder");
    let (mut commands, mut printed) = (0, String::new());
    for line in block.lines() {
        let Some(command) = line.strip_prefix("$ ") else {
            assert!(printed.contains(line), "{page}: {line:?} is missing in:\n{printed}");
            continue;
        };
        let (command, note) = command.split_once("    # ").unwrap_or((command, "ends with 0"));
        let mut shell = world.program("/bin/sh", &["-c", command]);
        shell.env("PATH", format!("{}:/usr/bin:/bin", programs.display()));
        // Messages about a missing network would differ between machines.
        shell.env("PI_OFFLINE", "1");
        let run = run(shell);
        assert_eq!(format!("ends with {}", run.code), note, "{page}: {command}\n{}\n{}", run.stdout, run.stderr);
        printed = format!("{}{}", run.stdout, run.stderr);
        commands += 1;
    }
    commands
}

#[test]
fn every_page_of_the_guide_is_run() {
    let listed: BTreeSet<String> =
        PAGES.iter().chain(NOT_RUN.iter().map(|(page, _)| page)).map(|page| (*page).to_owned()).collect();
    let folder = fs::read_dir(root().join("docs/guide")).expect("the guide");
    let names = folder.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned());
    let names = names.filter(|name| name.ends_with(".md")).map(|name| format!("docs/guide/{name}"));
    let missing: Vec<String> = names.filter(|name| !listed.contains(name)).collect();
    assert!(missing.is_empty(), "list them in PAGES: {missing:?}");
}

/// Replaces measured numbers by zeros.
fn without_numbers(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        match c {
            '0'..='9' if out.ends_with('0') => {}
            '0'..='9' => out.push('0'),
            c => out.push(c),
        }
    }
    out
}

#[test]
fn the_picture_of_the_readme_shows_what_the_demo_prints() {
    let printed = without_numbers(&World::new().pi(&["demo"]).succeeded().stdout);
    let picture = fs::read_to_string(root().join("docs/demo.svg")).expect("the picture");
    let lines =
        picture.lines().filter_map(|line| line.strip_prefix("<text ")?.strip_suffix("</text>")?.split_once('>'));
    let lines: Vec<String> =
        lines.map(|(_, text)| text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")).collect();
    assert!(lines.len() > 10, "the picture is empty");
    for line in lines.iter().filter(|line| *line != "$ pi demo") {
        assert!(
            printed.contains(&without_numbers(line)),
            "`cargo xtask picture` draws it anew; {line:?} is not in:\n{printed}"
        );
    }
}

#[test]
fn the_table_of_limits_is_what_pi_prints() {
    let printed = World::new().pi(&["ext", "limits"]).succeeded().stdout.clone();
    let of_extensions = printed.split("Around each extension").next().expect("a text");
    let rows = of_extensions.lines().filter_map(|line| line.strip_prefix("  "));
    let printed: BTreeSet<Vec<&str>> = rows.map(|row| row.split_whitespace().collect()).collect();
    let page = fs::read_to_string(root().join("docs/security.md")).expect("the page");
    let rows = page.lines().skip_while(|line| !line.starts_with("| name | limit |")).skip(2);
    let rows = rows.take_while(|line| line.starts_with('|'));
    let listed: BTreeSet<Vec<&str>> =
        rows.map(|row| row.split('|').skip(1).take(2).map(|cell| cell.trim().trim_matches('`')).collect()).collect();
    assert_eq!(listed, printed);
}
