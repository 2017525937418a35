use super::*;
use crate::caller::{Caller, Profile};
use crate::decision::Reason;
use crate::gate::{Gate, Permit};
use crate::places::{OwnState, Places};
use crate::policy::{Grant, Mode, Policy, usual_paths};
use Access::{Look, Make, Read, Write};
use pijs_protocol::manifest::Scope;

const ROOT: &str = "/home/me/.pi/agent/sessions";
/// Session folder of the current project.
const FOLDER: &str = "/home/me/.pi/agent/sessions/--projects-app--";

struct ScriptedFiles {
    now: Option<&'static str>,
    was: &'static [&'static str],
}

impl SessionFiles for ScriptedFiles {
    fn now(&self) -> Option<PathBuf> {
        self.now.map(PathBuf::from)
    }

    fn was(&self, file: &Path) -> bool {
        self.was.iter().any(|known| Path::new(known) == file)
    }
}

/// Returns permits of an extension that has `grants` and the usual read and write access.
fn permits(now: Option<&'static str>, grants: &[&str]) -> impl Fn(&str) -> Permit {
    let places = Places::new("/projects/app", "/home/me", "/home/me/.pi/agent", "/tmp");
    let files =
        ScriptedFiles { now, was: &["/home/me/.pi/agent/sessions/--projects-app--/earlier.jsonl", "/data/was.txt"] };
    let gate = Gate::builder(Policy { mode: Mode::Strict, ..Policy::default() }, places)
        .sessions(PathBuf::from(FOLDER), Arc::new(files))
        .build();
    let usual = ["read", "write"].map(|capability| Grant::scoped("usual", capability, usual_paths()));
    let grants: Vec<Grant> = usual.into_iter().chain(grants.iter().map(|name| Grant::any("g", *name))).collect();
    move |extension| {
        let profile = Arc::new(Profile::new(extension));
        gate.set_grants(&profile, &grants, Default::default()).expect("the grants compile");
        gate.permit(&Caller::new(profile), "fs")
    }
}

/// Returns a permit for the given session folders and files.
fn permits_with(own: OwnState, folder: &str, now: &'static str, grants: &[Grant]) -> Permit {
    let places = Places::new("/projects/app", "/home/me", "/home/me/.pi/agent", "/tmp").with_own_state(own);
    let files = ScriptedFiles { now: Some(now), was: &["/projects/app/was.jsonl"] };
    let gate = Gate::builder(Policy { mode: Mode::Strict, ..Policy::default() }, places)
        .sessions(PathBuf::from(folder), Arc::new(files))
        .build();
    let profile = Arc::new(Profile::new("a"));
    gate.set_grants(&profile, grants, Default::default()).expect("the grants compile");
    gate.permit(&Caller::new(profile), "fs")
}

fn at(name: &str) -> PathBuf {
    Path::new(ROOT).join(name)
}

const NOW: Option<&str> = Some("/home/me/.pi/agent/sessions/--projects-app--/now.jsonl");

/// Returns the accesses that are allowed at a path.
fn open(permit: &Permit, name: &str) -> Vec<Access> {
    [Read, Look, Write, Make].into_iter().filter(|access| permit.path(*access, &at(name)).is_ok()).collect()
}

#[test]
fn the_current_session_is_readable_and_its_folder_accessible() {
    let permit = permits(NOW, &[])("a");
    for (name, expected) in [
        ("--projects-app--/now.jsonl", vec![Read, Look]),
        ("--projects-app--/now", vec![Read, Look, Write, Make]),
        ("--projects-app--/now/run/1.jsonl", vec![Read, Look, Write, Make]),
        ("--projects-app--", vec![Look]),
        ("", vec![Look]),
        ("--projects-app--/nowhere.jsonl", vec![]),
        ("--projects-app--/earlier.jsonl", vec![]),
        ("--projects-app--/new.jsonl", vec![]),
        ("--projects-app2--", vec![]),
        ("--projects-other--/x.jsonl", vec![]),
        ("subagents", vec![]),
    ] {
        assert_eq!(open(&permit, name), expected, "{name}");
    }
}

#[test]
fn session_inject_allows_creating_sessions() {
    let permit = permits(NOW, &["session.inject"])("a");
    for (name, expected) in [
        ("--projects-app--/new.jsonl", vec![Make]),
        ("--projects-app--/fork/1.jsonl", vec![Make]),
        ("--projects-app--", vec![Look, Make]),
        ("", vec![Look, Make]),
        ("subagents/x.jsonl", vec![Make]),
        ("subagents", vec![Make]),
        ("loose.jsonl", vec![]),
        ("--projects-other--/x.jsonl", vec![]),
        ("-other/x.jsonl", vec![]),
    ] {
        assert_eq!(open(&permit, name), expected, "{name}");
    }
    assert!(permit.only_new(&at("--projects-app--/new.jsonl")));
    assert!(!permit.only_new(&at("--projects-app--/now/1.jsonl")));
    assert!(!permit.only_new(Path::new("/projects/app/a")));
}

#[test]
fn created_files_belong_to_the_extension() {
    let permits = permits(NOW, &["session.inject"]);
    let (mine, other) = (permits("a"), permits("b"));
    mine.made(&at("--projects-app--/mine"));
    assert_eq!(open(&mine, "--projects-app--/mine/1.jsonl"), [Read, Look, Write, Make]);
    assert_eq!(open(&mine, "--projects-app--/mine2"), [Make]);
    assert_eq!(open(&other, "--projects-app--/mine/1.jsonl"), [Make]);
    // The session folders themselves belong to no extension, even to the one that created them.
    for folder in ["", "--projects-app--"] {
        mine.made(&at(folder));
        assert_eq!(open(&mine, "--projects-app--/earlier.jsonl"), [Make]);
    }
    for number in 0..MAX_CREATED {
        mine.made(&at(&format!("--projects-app--/many-{number}")));
    }
    assert_eq!(open(&mine, "--projects-app--/another"), []);
    assert_eq!(open(&other, "--projects-app--/another"), [Make]);
}

#[test]
fn a_session_without_a_folder_of_its_own_opens_nothing() {
    for current in [None, Some("/home/me/.pi/agent/sessions/now.jsonl"), Some("/data/now.jsonl"), Some(FOLDER)] {
        let permit = permits(current, &[])("a");
        for name in ["--projects-app--/x.jsonl", "now.jsonl", "now/x", "--projects-other--/x", "subagents/x"] {
            assert_eq!(open(&permit, name), [], "{current:?} {name}");
        }
    }
    let odd = permits(Some("/home/me/.pi/agent/sessions/--projects-app--/now.txt"), &[])("a");
    assert_eq!(open(&odd, "--projects-app--/now.txt"), []);
}

#[test]
fn without_session_files_all_sessions_are_protected() {
    let places = Places::new("/projects/app", "/home/me", "/home/me/.pi/agent", "/tmp");
    let gate = Gate::builder(Policy { mode: Mode::Permissive, ..Policy::default() }, places).build();
    let permit = gate.permit(&Caller::new(Arc::new(Profile::new("a"))), "fs");
    permit.made(&at("--projects-app--/x"));
    for name in ["", "--projects-app--/x", "subagents/x"] {
        assert_eq!(open(&permit, name), [], "{name}");
    }
}

#[test]
fn the_session_switches_to_known_or_accessible_files() {
    let permit = permits(NOW, &[])("a");
    for known in [NOW.expect("a file"), "/home/me/.pi/agent/sessions/--projects-app--/earlier.jsonl", "/data/was.txt"] {
        assert_eq!(permit.session(Path::new(known)), Ok(()), "{known}");
    }
    assert_eq!(permit.session(Path::new("/projects/app/s.jsonl")), Ok(()));
    assert_eq!(permit.session(Path::new("/projects/app/s.json")), Err(Reason::Scope));
    assert_eq!(permit.session(Path::new("/projects/app/jsonl")), Err(Reason::Scope));
    assert_eq!(permit.session(Path::new("/data/s.jsonl")), Err(Reason::Scope));
    assert_eq!(permit.session(&at("--projects-other--/s.jsonl")), Err(Reason::ProtectedPath));
    assert_eq!(permit.session(Path::new("/projects/app/.git/s.jsonl")), Err(Reason::ProtectedPath));
}

#[test]
fn another_folder_of_sessions_is_like_the_usual_one() {
    let own = OwnState { sessions: vec!["/data/sessions".into()], ..OwnState::default() };
    let everywhere = ["read", "write"].map(|capability| Grant::any("g", capability));
    let with = |more: Vec<Grant>| {
        let grants: Vec<Grant> = everywhere.iter().cloned().chain(more).collect();
        permits_with(own.clone(), "/data/sessions", "/data/sessions/now.jsonl", &grants)
    };
    let (permit, speaker) = (with(Vec::new()), with(vec![Grant::any("g", "session.inject")]));
    for (name, expected, spoken) in [
        ("now.jsonl", vec![Read, Look], vec![Read, Look]),
        ("now/1.jsonl", vec![Read, Look, Write, Make], vec![Read, Look, Write, Make]),
        ("earlier.jsonl", vec![], vec![Make]),
        ("now.jsonl.bak", vec![], vec![Make]),
        ("earlier/1.jsonl", vec![], vec![Make]),
        ("", vec![Look], vec![Look, Make]),
    ] {
        let name = Path::new("/data/sessions").join(name);
        let name = name.to_str().expect("text");
        assert_eq!(open(&permit, name), expected, "{name}");
        assert_eq!(open(&speaker, name), spoken, "{name}");
    }
    assert!(speaker.only_new(Path::new("/data/sessions/new.jsonl")));
}

#[test]
fn session_files_elsewhere_are_protected_and_siblings_need_their_name() {
    let own = OwnState { session_files: vec!["/data/old.jsonl".into()], ..OwnState::default() };
    let named = Scope { paths: Some(vec!["/projects/app/mine.jsonl".into()]), ..Scope::default() };
    let grants = [
        Grant::any("g", "read"),
        Grant::scoped("g", "write", Scope { paths: Some(vec!["/**".into()]), ..Scope::default() }),
        Grant::scoped("n", "write", named),
    ];
    let permit = permits_with(own, FOLDER, "/projects/app/now.jsonl", &grants);
    for (path, expected) in [
        ("/projects/app/now.jsonl", vec![Read, Look]),
        ("/projects/app/NOW.jsonl", vec![]),
        ("/projects/app/now.jsonl.damaged-1", vec![]),
        ("/projects/app/was.jsonl", vec![]),
        ("/data/old.jsonl", vec![]),
        ("/data/old.jsonl.bak", vec![]),
        ("/projects/app/new.jsonl", vec![Read, Look]),
        ("/data/new.jsonl", vec![Read, Look]),
        ("/projects/app/mine.jsonl", vec![Read, Look, Write, Make]),
        ("/projects/app/src/new.jsonl", vec![Read, Look, Write, Make]),
        ("/projects/app/notes.json", vec![Read, Look, Write, Make]),
    ] {
        assert_eq!(open(&permit, path), expected, "{path}");
    }
}
