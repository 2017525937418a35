use super::*;
use crate::caller::Caller;
use crate::decision::{Decision, Rule};
use crate::derive::ParsedCall;
use crate::gate::Judgement;
use crate::policy::{Grant, Policy};
use crate::prompt::{Answer, Prompter, Question};
use crate::task::BoxFuture;
use pijs_protocol::manifest::Scope;
use serde_json::{Value, json};

fn places() -> Places {
    Places::new("/projects/app", "/home/me", "/home/me/.pi/agent", "/tmp")
}

fn gate(mode: Mode) -> Gate {
    Gate::builder(Policy { mode, ..Policy::default() }, places()).build()
}

fn caller(gate: &Gate, extension: &str, grants: &[Grant]) -> Caller {
    let profile = Arc::new(Profile::new(extension).at("/pkg"));
    gate.set_grants(&profile, grants, Default::default()).expect("the grants compile");
    Caller::new(profile)
}

fn scoped(capability: &str, paths: &[&str]) -> Grant {
    let paths = paths.iter().map(|path| (*path).to_owned()).collect();
    Grant::scoped("g", capability, Scope { paths: Some(paths), ..Scope::default() })
}

fn judged(gate: &Gate, caller: &Caller, method: &str, params: Value) -> Decision {
    let params = params.as_object().expect("an object").clone();
    let call = ParsedCall::parse(method, params, Vec::new()).expect("a valid call");
    match gate.judge(caller, method, &call.required().expect("a valid call")).expect("a decision") {
        Judgement::Settled(decision) | Judgement::Ask(_, decision) => decision,
    }
}

#[test]
fn an_extension_connects_to_its_own_listening_servers() {
    let gate = gate(Mode::Strict);
    let (mine, other) = (caller(&gate, "a", &[]), caller(&gate, "b", &[]));
    let permit = gate.permit(&mine, "net");
    let address: SocketAddr = "127.0.0.1:8123".parse().expect("an address");
    let ways = [
        ("http", json!({"url": "http://127.0.0.1:8123/"})),
        ("net", json!({"op": "connect", "socket": "s", "host": "localhost", "port": 8123})),
        ("websocket", json!({"op": "open", "socket": "s", "url": "ws://127.0.0.1:8123/"})),
    ];
    let rules = |caller: &Caller| ways.clone().map(|(method, params)| judged(&gate, caller, method, params).rule);
    assert_eq!(rules(&mine), [Rule::NoGrant; 3]);
    let listening = permit.listens(address);
    assert_eq!(rules(&mine), [Rule::Free; 3]);
    assert_eq!(rules(&other), [Rule::NoGrant; 3]);
    assert!(permit.is_own_server(address) && !gate.permit(&other, "net").is_own_server(address));
    assert_eq!(permit.host("http", "127.0.0.1", 8123), Ok(()));
    assert_eq!(permit.host("http", "127.0.0.1", 8124), Err(Reason::NoGrant));
    assert_eq!(gate.permit(&other, "http").host("http", "127.0.0.1", 8123), Err(Reason::NoGrant));
    drop(listening);
    assert_eq!(rules(&mine), [Rule::NoGrant; 3]);
}

#[test]
fn a_folder_grant_does_not_cover_other_sockets_in_it() {
    let gate = gate(Mode::Strict);
    let grants = [scoped("write", &["/data/**", "<project>", "/run/named.sock"])];
    let permit = gate.permit(&caller(&gate, "a", &grants), "net");
    let speaks = |path: &str| permit.path(Access::Speak, Path::new(path));
    assert_eq!(permit.path(Access::Write, Path::new("/data/x.sock")), Ok(()));
    assert_eq!(speaks("/data/x.sock"), Err(Reason::Scope));
    for open in ["/projects/app/x.sock", "/run/named.sock"] {
        assert_eq!(speaks(open), Ok(()), "{open}");
    }
    let listening = permit.listens_at(Path::new("/data/x.sock"));
    assert_eq!(speaks("/data/x.sock"), Ok(()));
    assert_eq!(speaks("/data/y.sock"), Err(Reason::Scope));
    drop(listening);
    assert_eq!(speaks("/data/x.sock"), Err(Reason::Scope));
}

#[test]
fn a_program_grant_includes_probing_its_file() {
    let gate = gate(Mode::Strict);
    let git = Scope { commands: Some(vec!["git".into()]), ..Scope::default() };
    let looks = |grants: &[Grant], path: &str| {
        gate.permit(&caller(&gate, "a", grants), "fs").path(Access::Look, Path::new(path)).is_ok()
    };
    let may_run = [Grant::scoped("g", "exec", git)];
    // The target of a link in a program folder is decided under any name that it has there.
    for seen in ["/usr/bin/git", "/usr/bin/other", "/etc/alternatives/vi"] {
        assert!(looks(&may_run, seen) && !looks(&[], seen), "{seen}");
    }
    for hidden in ["/usr/bin", "/opt/git", "/etc/passwd", "/usr/bin/sub/git"] {
        assert!(!looks(&may_run, hidden), "{hidden}");
    }
    let read = gate.permit(&caller(&gate, "a", &may_run), "fs").path(Access::Read, Path::new("/usr/bin/git"));
    assert_eq!(read, Err(Reason::NoGrant));
    let denied = Policy { mode: Mode::Strict, deny_caps: vec!["exec".into()], ..Policy::default() };
    let gate = Gate::builder(denied, places()).build();
    let permit = gate.permit(&caller(&gate, "a", &may_run), "fs");
    assert!(permit.path(Access::Look, Path::new("/usr/bin/git")).is_err());
}

struct AllowOncePrompter;

impl Prompter for AllowOncePrompter {
    fn ask(&self, _: Question) -> BoxFuture<'static, Answer> {
        Box::pin(std::future::ready(Answer::AllowOnce))
    }
}

#[tokio::test]
async fn one_time_grants_cover_the_prompted_call_only() {
    let gate = Gate::builder(Policy { mode: Mode::Prompt, ..Policy::default() }, places())
        .prompter(Arc::new(AllowOncePrompter));
    let gate = gate.build();
    let caller = caller(&gate, "a", &[]);
    let once = async |method: &str, params: Value| {
        let params = params.as_object().expect("an object").clone();
        let call = ParsedCall::parse(method, params, Vec::new()).expect("a valid call");
        let required = call.required().expect("a valid call");
        let (decision, permit) = gate.ask(&caller, method, &required).await.expect("a decision");
        assert_eq!((decision.allowed, decision.rule), (true, Rule::Person), "{call:?}");
        permit
    };
    let read = once("fs", json!({"op": "readFile", "path": "/data"})).await;
    assert_eq!(read.path(Access::Read, Path::new("/data")), Ok(()));
    assert_eq!(read.path(Access::Read, Path::new("/data/x")), Ok(()));
    assert_eq!(read.path(Access::Read, Path::new("/data2")), Err(Reason::NoGrant));
    assert_eq!(read.path(Access::Read, Path::new("/home/me/.ssh/id")), Err(Reason::ProtectedPath));

    let env = once("env", json!({"op": "get", "names": ["TOKEN"]})).await;
    assert_eq!((env.env("TOKEN"), env.env("HOME"), env.env("OTHER")), (Ok(()), Ok(()), Err(Reason::NoGrant)));

    let http = once("http", json!({"url": "http://127.0.0.1:81/"})).await;
    assert_eq!(http.host("http", "127.0.0.1", 81), Ok(()));
    assert_eq!(http.host("http", "127.0.0.1", 82), Err(Reason::NoGrant));
    let here = "127.0.0.1".parse().expect("an address");
    assert!(http.names_address(here, 81) && !http.names_address(here, 82));

    let exec = once("exec", json!({"command": "./run"})).await;
    assert!(exec.names_program(Path::new("/projects/app/run")) && !exec.names_program(Path::new("/projects/app/x")));

    let nothing = gate.permit(&caller, "fs");
    assert_eq!(nothing.path(Access::Read, Path::new("/data")), Err(Reason::NoGrant));
    assert!(!nothing.names_address(here, 81) && !nothing.names_program(Path::new("/projects/app/run")));
}

#[test]
fn a_grant_for_methods_covers_only_these() {
    let gate = gate(Mode::Strict);
    let tool_alone = Grant { methods: Some(vec!["tool".into()]), ..Grant::any("g", "read") };
    let caller = caller(&gate, "a", &[tool_alone]);
    let at = Path::new("/data/x");
    assert_eq!(gate.permit(&caller, "tool").path(Access::Read, at), Ok(()));
    assert_eq!(gate.permit(&caller, "fs").path(Access::Read, at), Err(Reason::Scope));
    // A capability without a hostcall has no method: the grant applies.
    assert!(gate.holds(&caller, "read").allowed);
}

#[test]
fn only_permissive_mode_crosses_mounts_and_needs_no_names() {
    for (mode, open) in [(Mode::Strict, false), (Mode::Prompt, false), (Mode::Permissive, true)] {
        let gate = gate(mode);
        let permit = gate.permit(&caller(&gate, "a", &[]), "exec");
        assert_eq!(permit.crosses_mounts(), open);
        assert_eq!(permit.names_program(Path::new("/tmp/x")), open);
    }
}
