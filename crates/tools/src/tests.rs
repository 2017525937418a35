use super::*;
use crate::system::OsToolSystem;
use pijs_environment::simulated::{CountingRandomness, CountingTimer, StandingTimer};
use pijs_environment::{Ambient, Timer};
use pijs_protocol::Now;
use std::fs;
use std::sync::Arc;
use std::time::Duration;

/// 2 January 2026.
const NOW: Now = Now { epoch_ms: 1_767_323_045_678, elapsed_us: 0 };

fn ambient(timer: Arc<dyn Timer>) -> Ambient {
    Ambient { timer, random: Arc::new(CountingRandomness::new(1)) }
}

struct TestProject {
    directory: tempfile::TempDir,
    cancel: CancellationToken,
}

impl TestProject {
    fn new(files: &[(&str, &str)]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = directory.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        Self { directory, cancel: CancellationToken::new() }
    }

    async fn run(&self, tool: Builtin, input: Value) -> Result<(String, Option<Value>), String> {
        let system = OsToolSystem::new(
            ambient(Arc::new(CountingTimer::new(NOW.epoch_ms, 0))),
            self.directory.path().to_owned(),
            pijs_connectors::exec::OwnShell::new(Default::default()),
        );
        let mut context = ToolContext {
            system: &system,
            cwd: self.directory.path(),
            cancel: self.cancel.clone(),
            about: SessionFacts::default(),
            tool_call_id: "call_1",
            on_update: &mut |_| {},
        };
        let output = tool.run(&mut context, input).await?;
        Ok((output.content[0]["text"].as_str().unwrap().to_owned(), output.details))
    }

    fn read(&self, path: &str) -> String {
        fs::read_to_string(self.directory.path().join(path)).unwrap()
    }
}

#[tokio::test]
async fn read_returns_lines_from_an_offset_and_reports_the_rest() {
    let project = TestProject::new(&[("a.txt", "1\n2\n3\n4")]);
    let (text, details) = project.run(Builtin::Read, json!({"path": "a.txt", "offset": 2, "limit": 2})).await.unwrap();
    assert_eq!(text, "2\n3\n\n[1 more lines in file. Use offset=4 to continue.]");
    assert_eq!(details, None);
    let error = project.run(Builtin::Read, json!({"path": "a.txt", "offset": 9})).await.unwrap_err();
    assert!(error.contains("beyond end of file (4 lines total)"), "{error}");
    let long: Vec<String> = (1..=2001).map(|n| n.to_string()).collect();
    fs::write(project.directory.path().join("long"), long.join("\n")).unwrap();
    let (text, details) = project.run(Builtin::Read, json!({"path": "long"})).await.unwrap();
    assert!(text.ends_with("[Showing lines 1-2000 of 2001. Use offset=2001 to continue.]"));
    assert_eq!(details.unwrap()["truncation"]["truncatedBy"], "lines");
}

#[tokio::test]
async fn write_creates_directories() {
    let project = TestProject::new(&[]);
    project.run(Builtin::Write, json!({"path": "a/b.txt", "content": "é"})).await.unwrap();
    assert_eq!(project.read("a/b.txt"), "é");
}

#[tokio::test]
async fn edit_matches_the_original_and_keeps_line_ends_and_byte_order_mark() {
    let project = TestProject::new(&[("a.txt", "\u{feff}one\r\ntwo\r\nthree\r\n")]);
    let edits = json!([{"oldText": "two\nthree", "newText": "2\n3"}, {"oldText": "one", "newText": "two"}]);
    let (_, details) = project.run(Builtin::Edit, json!({"path": "a.txt", "edits": edits})).await.unwrap();
    assert_eq!(project.read("a.txt"), "\u{feff}two\r\n2\r\n3\r\n");
    assert_eq!(details.unwrap()["firstChangedLine"], 1);
}

#[tokio::test]
async fn edit_refuses_ambiguous_absent_overlapping_and_empty_edits() {
    let text = "aa b aa";
    let project = TestProject::new(&[("a.txt", text)]);
    for (edits, word) in [
        (json!([{"oldText": "aa", "newText": "x"}]), "2 occurrences"),
        (json!([{"oldText": "zz", "newText": "x"}]), "Could not find"),
        (json!([{"oldText": "a b", "newText": "x"}, {"oldText": "b a", "newText": "y"}]), "overlap"),
        (json!([{"oldText": "b", "newText": "b"}]), "identical"),
    ] {
        let error = project.run(Builtin::Edit, json!({"path": "a.txt", "edits": edits})).await.unwrap_err();
        assert!(error.contains(word), "{error}");
    }
    assert_eq!(project.read("a.txt"), text);
}

#[tokio::test]
async fn bash_returns_both_streams_and_the_exit_code() {
    let project = TestProject::new(&[]);
    let (text, _) = project.run(Builtin::Bash, json!({"command": "echo out; echo err >&2"})).await.unwrap();
    assert!(text.contains("out\n") && text.contains("err\n"), "{text}");
    let error = project.run(Builtin::Bash, json!({"command": "echo bad; exit 3"})).await.unwrap_err();
    assert!(error.starts_with("bad\n") && error.ends_with("Command exited with code 3"), "{error}");
}

#[tokio::test]
async fn bash_kills_all_descendants_on_timeout() {
    let project = TestProject::new(&[]);
    let command = "(while true; do echo x >> alive; sleep 0.01; done) & wait";
    let error = project.run(Builtin::Bash, json!({"command": command, "timeout": 3})).await.unwrap_err();
    assert!(error.ends_with("Command timed out after 3 seconds"), "{error}");
    let length = project.read("alive").len();
    assert!(length > 0);
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(project.read("alive").len(), length, "the child died with the shell");
}

#[tokio::test]
async fn bash_interleaves_both_streams_in_order() {
    let project = TestProject::new(&[]);
    let command = "for i in 1 2 3; do echo out $i; echo err $i >&2; done; ls /nowhere; echo last; exit 3";
    for _ in 0..5 {
        let error = project.run(Builtin::Bash, json!({"command": command})).await.unwrap_err();
        let lines: Vec<&str> = error.lines().collect();
        assert_eq!(lines[..6], ["out 1", "err 1", "out 2", "err 2", "out 3", "err 3"]);
        assert!(lines[6].starts_with("ls: ") && lines[7] == "last", "{error}");
    }
}

/// Each update contains the whole output so far.
#[tokio::test]
async fn bash_updates_at_its_start_and_after_each_interval() {
    let project = TestProject::new(&[]);
    let system = OsToolSystem::new(
        ambient(Arc::new(StandingTimer(NOW))),
        project.directory.path().to_owned(),
        pijs_connectors::exec::OwnShell::new(Default::default()),
    );
    let mut updates = Vec::new();
    let mut on_update = |update: Value| updates.push(update["content"][0]["text"].as_str().map(str::len));
    let mut context = ToolContext {
        system: &system,
        cwd: project.directory.path(),
        cancel: project.cancel.clone(),
        about: SessionFacts::default(),
        tool_call_id: "call_1",
        on_update: &mut on_update,
    };
    let command = "for i in $(seq 2000); do echo line $i; done";
    let output = Builtin::Bash.run(&mut context, json!({"command": command})).await.unwrap();
    assert!(output.content[0]["text"].as_str().unwrap().ends_with("line 2000\n"));
    assert!(updates.len() <= 3, "that it begins, the first piece, and what is left at its end: {updates:?}");
    assert_eq!(updates[0], None);
}

#[tokio::test]
async fn bash_keeps_the_end_of_a_long_output_and_names_the_full_output() {
    let project = TestProject::new(&[]);
    let (text, details) = project.run(Builtin::Bash, json!({"command": "seq 3000"})).await.unwrap();
    assert!(text.contains("\n3000\n") && !text.contains("\n900\n"), "{text}");
    let path = details.unwrap()["fullOutputPath"].as_str().unwrap().to_owned();
    assert!(fs::read_to_string(path).unwrap().starts_with("1\n2\n"));
}

const TREE: &[(&str, &str)] = &[
    (".git/HEAD", ""),
    (".gitignore", "*.log\n/out\n!keep.log\n"),
    ("b.rs", "fn b() {}\n// find me\n"),
    ("out/c.rs", "find me\n"),
    ("src/a.rs", "first\nfind me\nlast\n"),
    ("src/x.log", "find me\n"),
    ("src/keep.log", "find me\n"),
];

#[tokio::test]
async fn grep_respects_gitignore_globs_and_context() {
    let project = TestProject::new(TREE);
    let (text, _) = project.run(Builtin::Grep, json!({"pattern": "find.me"})).await.unwrap();
    assert_eq!(text, "b.rs:2: // find me\nsrc/a.rs:2: find me\nsrc/keep.log:1: find me");
    let (text, _) =
        project.run(Builtin::Grep, json!({"pattern": "find me", "glob": "src/*.rs", "context": 1})).await.unwrap();
    assert_eq!(text, "src/a.rs-1- first\nsrc/a.rs:2: find me\nsrc/a.rs-3- last");
    let (text, _) =
        project.run(Builtin::Grep, json!({"pattern": "FIND.ME", "ignoreCase": true, "literal": true})).await.unwrap();
    assert_eq!(text, "No matches found");
    let (_, details) = project.run(Builtin::Grep, json!({"pattern": "find", "limit": 1})).await.unwrap();
    assert_eq!(details.unwrap()["matchLimitReached"], 1);
    // Limits larger than the file, and than any integer type.
    let all = json!({"pattern": "me$", "path": "src/a.rs", "context": 1e300, "limit": 1e300});
    let (text, _) = project.run(Builtin::Grep, all).await.unwrap();
    assert_eq!(text, "a.rs-1- first\na.rs:2: find me\na.rs-3- last\na.rs-4- ");
}

/// Compares with the results that the real pi got from ripgrep and fd (`fixtures/file-search`, captured once).
#[tokio::test]
async fn ignore_files_and_globs_select_the_same_files_as_in_pi() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/file-search/ignored.json");
    let fixture: Value = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
    let files = fixture["files"].as_object().unwrap().iter();
    let files: Vec<(&str, &str)> = files.map(|(path, text)| (path.as_str(), text.as_str().unwrap())).collect();
    for tree in fixture["trees"].as_array().unwrap() {
        let project = TestProject::new(&files);
        for folder in tree["repositories"].as_array().unwrap() {
            fs::create_dir_all(project.directory.path().join(folder.as_str().unwrap()).join(".git")).unwrap();
        }
        for call in tree["calls"].as_array().unwrap() {
            let mut input = call.clone();
            let (tool, pattern) = match call["tool"] == "grep" {
                true => (Builtin::Grep, "needle"),
                false => (Builtin::Find, call["pattern"].as_str().unwrap()),
            };
            input["pattern"] = pattern.into();
            let (text, _) = project.run(tool, input).await.unwrap();
            let lines = text.lines().filter(|line| !line.starts_with("No "));
            let mut found: Vec<&str> = lines.map(|line| line.split(':').next().unwrap()).collect();
            found.sort_unstable();
            assert_eq!(json!(found), call["found"], "{call} with repositories at {}", tree["repositories"]);
        }
    }
}

/// Every line is context of each match: ten thousand matches would be a hundred million lines.
#[tokio::test]
async fn grep_bounds_the_collected_text() {
    let lines = "1\n".repeat(10_000);
    let project = TestProject::new(&[("lines.txt", lines.as_str())]);
    let all = json!({"pattern": "1", "context": 10_000, "limit": 1e9});
    let (text, details) = project.run(Builtin::Grep, all).await.unwrap();
    assert!(text.len() < 1 << 20);
    assert!(details.unwrap()["truncation"]["totalBytes"].as_u64().unwrap() < 66 << 20);
}

#[tokio::test]
async fn find_matches_names_or_paths() {
    let project = TestProject::new(TREE);
    let (text, _) = project.run(Builtin::Find, json!({"pattern": "*.rs"})).await.unwrap();
    assert_eq!(text, "b.rs\nsrc/a.rs");
    let (text, _) = project.run(Builtin::Find, json!({"pattern": "src/*"})).await.unwrap();
    assert_eq!(text, "src/a.rs\nsrc/keep.log");
}

#[tokio::test]
async fn ls_marks_directories_and_stops_at_its_limit() {
    let project = TestProject::new(&TREE[1..]);
    let (text, _) = project.run(Builtin::Ls, json!({})).await.unwrap();
    assert_eq!(text, ".gitignore\nb.rs\nout/\nsrc/");
    let (text, details) = project.run(Builtin::Ls, json!({"limit": 1})).await.unwrap();
    assert!(text.starts_with(".gitignore\n\n[1 entries limit reached"), "{text}");
    assert_eq!(details.unwrap()["entryLimitReached"], 1);
}

/// A result is stored readable only for its user, under an unused name, and the session recognises it as a result.
#[cfg(unix)]
#[tokio::test]
async fn long_results_are_kept_in_their_folder() {
    use pijs_hostcall::spilled::SpilledResults;
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().unwrap();
    let results = SpilledResults::of(&folder.path().join("agent"));
    let system = OsToolSystem::new(
        ambient(Arc::new(StandingTimer(NOW))),
        folder.path().join("temporary"),
        pijs_connectors::exec::OwnShell::new(Default::default()),
    )
    .with_results(Some(results.clone()));
    let first = system.keep("pi-bash-x.log".to_owned(), b"one".to_vec()).await.unwrap();
    let second = system.keep("pi-bash-x.log".to_owned(), b"two".to_vec()).await.unwrap();
    assert_eq!(first, folder.path().join("agent/pijs/results/pi-bash-x.log"));
    assert_eq!(second, folder.path().join("agent/pijs/results/pi-bash-x-2.log"));
    assert!(results.has(&first) && results.has(&second) && !results.has(&folder.path().join("agent/pijs/results/y")));
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(results.folder()), mode(&first)), (0o700, 0o600));
    assert_eq!(fs::read(second).unwrap(), b"two");
}
