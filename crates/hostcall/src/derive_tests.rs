#[path = "../tests/cases/mod.rs"]
mod cases;

use super::*;
use crate::vocabulary::{CAPABILITIES, SESSION_OPS, UI_OPS};
use serde::Deserialize;
use serde_json::json;
use std::collections::BTreeMap;

fn capability(method: &str, params: Value) -> Result<&'static str, String> {
    let params = params.as_object().unwrap().clone();
    ParsedCall::parse(method, params, Vec::new())
        .and_then(|call| call.required().map(|required| required.capability))
        .map_err(|error| error.details["reason"].as_str().unwrap().to_owned())
}

#[test]
fn tools_derive_as_specified() {
    for (name, expected) in [
        ("read", "read"),
        ("grep", "read"),
        ("find", "read"),
        ("ls", "read"),
        ("write", "write"),
        ("edit", "write"),
        ("bash", "exec"),
    ] {
        assert_eq!(capability("tool", json!({"name": name, "input": {"path": "x"}})), Ok(expected));
    }
    for name in ["Bash", "bash ", "bash\0", "ｂａｓｈ", "./bash", "__proto__", "constructor", ""] {
        assert_eq!(capability("tool", json!({"name": name, "input": {}})), Ok("tool"), "{name:?}");
    }
}

#[test]
fn an_unknown_file_verb_is_refused() {
    assert_eq!(capability("fs", json!({"op": "chown", "path": "a"})), Err("schema".into()));
}

/// Runs `fixtures/gate/derivation/*.toml`: calls, the capability that each needs, and the path whose content it reads.
#[test]
fn calls_derive_the_expected_capability() {
    let mut failures = Vec::new();
    let mut calls = 0;
    for Derivations { call } in cases::all("gate/derivation") {
        for Call { needs, content, method } in call {
            let (method, params) = method.first_key_value().expect("a call has a method");
            calls += 1;
            let parsed = ParsedCall::parse(method.as_str(), params.clone(), Vec::new());
            let required = parsed.as_ref().map_err(Clone::clone).and_then(ParsedCall::required);
            let content_read = parsed.as_ref().ok().and_then(ParsedCall::content_read);
            let found = (describe(required), content_read.map(str::to_owned));
            if found != (needs.clone(), content.clone()) {
                failures.push(format!("{method} {params:?}: {found:?}, expected {:?}", (needs, content)));
            }
        }
    }
    assert!(calls > 80, "only {calls} calls were found");
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[derive(Deserialize)]
struct Derivations {
    call: Vec<Call>,
}

#[derive(Deserialize)]
struct Call {
    needs: String,
    content: Option<String>,
    /// Method of the call and its parameters.
    #[serde(flatten)]
    method: BTreeMap<String, Map<String, Value>>,
}

fn describe(required: Result<Required<'_>, HostcallError>) -> String {
    let Required { capability, subject, .. } = match required {
        Ok(required) => required,
        Err(error) => return format!("refused: {}", error.details["reason"].as_str().expect("a reason")),
    };
    let used = |used: PathUse<'_>| {
        let does = match used.access {
            Access::Read => "read",
            Access::Look => "look at",
            Access::Write => "write",
            Access::Speak => "speak to",
            Access::Make => "make",
        };
        let form = match used.form {
            PathForm::Node => String::new(),
            PathForm::Tool => " as a tool".to_owned(),
            PathForm::TargetOf(link) => format!(" seen from {link}"),
        };
        format!("{does} {}{form}", used.path)
    };
    let what = match subject {
        Subject::None => return capability.to_owned(),
        Subject::Handle => return format!("{capability}, open already"),
        Subject::Paths(first, second) => std::iter::once(first).chain(second).map(used).collect::<Vec<_>>().join(", "),
        Subject::Program { command, args, cwd, .. } => {
            let place = cwd.map(|cwd| format!(" in {cwd}")).unwrap_or_default();
            format!("{command} [{}]{place}", args.join(", "))
        }
        Subject::Host { scheme, host, port } => format!("{scheme} {host} {port}"),
        Subject::Names(names) => names.join(" "),
        Subject::Tool(name) => name.to_owned(),
        Subject::Mcp { target, .. } => target.to_owned(),
        code @ Subject::Code { .. } => code.to_string(),
    };
    format!("{capability}: {what}")
}

#[test]
fn session_ops_split_into_own_entries_injection_and_control() {
    for (op, expected) in SESSION_OPS {
        assert_eq!(capability("session", json!({"op": op})), Ok(*expected));
    }
    assert_eq!(capability("session", json!({"op": "send_message"})), Ok("session.inject"));
    assert_eq!(capability("session", json!({"op": "append_entry"})), Ok("session"));
    assert_eq!(capability("session", json!({"op": "become_admin"})), Err("schema".into()));
}

#[test]
fn subjects_are_described_for_users() {
    let known = |name: &str| CAPABILITIES.iter().any(|(capability, _)| *capability == name);
    assert!(SESSION_OPS.iter().all(|(_, capability)| known(capability)));
    for op in UI_OPS.iter().filter(|op| **op != "editor_submit") {
        assert_eq!(capability("ui", json!({"op": op})), Ok("ui"));
    }
    for (method, params) in [
        ("log", json!({})),
        ("timer", json!({"op": "sleep", "ms": 1})),
        ("events", json!({"op": "emit"})),
        ("tools", json!({"op": "list"})),
        ("module", json!({"op": "quote"})),
        ("env", json!({"op": "get", "names": ["A"]})),
        ("exec", json!({"command": "ls"})),
        ("http", json!({"url": "https://x.org/"})),
    ] {
        assert_eq!(capability(method, params), Ok(CAPABILITIES.iter().find(|(name, _)| *name == method).unwrap().0));
    }
}

#[test]
fn missing_and_wrong_members_are_named() {
    for (method, params) in [
        ("fs", json!({"op": "stat"})),
        ("fs", json!({"op": "stat", "path": 1})),
        ("fs", json!({})),
        ("exec", json!({"args": []})),
        ("exec", json!({"command": "x", "args": [1]})),
        ("env", json!({"op": "get", "names": ["A=B"]})),
        ("env", json!({"op": "get", "names": ["*"]})),
        ("module", json!({"op": "compile", "path": "/x.mjs"})),
        ("nonsense", json!({})),
    ] {
        assert_eq!(capability(method, params.clone()), Err("schema".into()), "{method} {params}");
    }
}
