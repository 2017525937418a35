#[path = "../tests/cases/mod.rs"]
mod cases;

use super::*;
use crate::vocabulary::{CAPABILITIES, FS_OPS, SESSION_OPS, UI_OPS};
use serde::Deserialize;
use serde_json::json;
use std::collections::BTreeMap;

fn capability(method: &str, params: Value) -> Result<&'static str, String> {
    let params = params.as_object().unwrap().clone();
    derive(method, &params)
        .map(|required| required.capability)
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
fn every_file_verb_derives_and_the_writing_ones_need_write() {
    let params = |op: &str| json!({"op": op, "path": "a", "from": "a", "to": "b", "target": "t", "prefix": "p"});
    for (op, needs) in FS_OPS {
        use FsNeeds::{Flags, Handle, Look, Path, PathOrHandle, Probe};
        let writes = !matches!(needs, Path | Probe | Look | PathOrHandle | Handle | Flags);
        assert_eq!(capability("fs", params(op)), Ok(if writes { "write" } else { "read" }), "{op}");
    }
    assert_eq!(capability("fs", json!({"op": "chown", "path": "a"})), Err("schema".into()));
}

/// Runs `fixtures/gate/derivation/*.toml`: calls, the capability each needs, and the path whose content it reads.
#[test]
fn calls_derive_the_expected_capability() {
    let mut failures = Vec::new();
    let mut calls = 0;
    for Derivations { call } in cases::all("gate/derivation") {
        for Call { needs, content, method } in call {
            let (method, params) = method.first_key_value().expect("a call has a method");
            calls += 1;
            let found = (describe(derive(method, params)), content_read(method, params).map(str::to_owned));
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
    /// The method and its parameters.
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

/// The names are those of Node's documentation (`fs`, file system flags), the bits those of Linux.
#[test]
fn flags_of_open_mean_what_they_mean_in_node() {
    let set = |flags: OpenFlags| {
        let OpenFlags { read, write, append, create, exclusive, truncate, nofollow, directory } = flags;
        let all = [
            (read, "read"),
            (write, "write"),
            (append, "append"),
            (create, "create"),
            (exclusive, "exclusive"),
            (truncate, "truncate"),
            (nofollow, "nofollow"),
            (directory, "directory"),
        ];
        all.iter().filter(|(is_set, _)| *is_set).map(|(_, name)| *name).collect::<Vec<_>>().join(" ")
    };
    let parse = |flags: Value| OpenFlags::parse(Some(&flags)).map(set).map_err(|error| error.details["reason"].clone());
    for (flags, expected) in [
        (json!(null), "read"),
        (json!("r"), "read"),
        (json!("rs"), "read"),
        (json!("r+"), "read write"),
        (json!("rs+"), "read write"),
        (json!("w"), "write create truncate"),
        (json!("wx"), "write create exclusive truncate"),
        (json!("w+"), "read write create truncate"),
        (json!("wx+"), "read write create exclusive truncate"),
        (json!("a"), "write append create"),
        (json!("ax"), "write append create exclusive"),
        (json!("a+"), "read write append create"),
        (json!("as+"), "read write append create"),
        (json!(0), "read"),
        (json!(1), "write"),
        (json!(2), "read write"),
        (json!(0o100), "read create"),
        // Without creation, exclusiveness has no effect.
        (json!(0o200), "read"),
        (json!(0o300), "read create exclusive"),
        (json!(0o400), "read"),
        (json!(0o1000), "read truncate"),
        (json!(0o2001), "write append"),
        (json!(0o4000), "read"),
        (json!(0o10000), "read"),
        (json!(0o200000), "read directory"),
        (json!(0o400000), "read nofollow"),
        (json!(0o1000000), "read"),
        (json!(0o4010000), "read"),
    ] {
        assert_eq!(parse(flags.clone()), Ok(expected.to_owned()), "{flags}");
    }
    // Node has no constants for `O_DIRECT`, `O_PATH`, and temporary files without a name.
    for flags in [
        json!("q"),
        json!("rx"),
        json!("rw"),
        json!("r++"),
        json!("wxx"),
        json!("+"),
        json!(""),
        json!(3),
        json!(0o40000),
        json!(0o10000000),
        json!(0o20200000),
        json!(1_u64 << 40),
        json!(-1),
        json!(0.5),
        json!([]),
    ] {
        assert_eq!(parse(flags.clone()), Err(json!("schema")), "{flags}");
    }
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
        ("timer", json!({"op": "sleep"})),
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
