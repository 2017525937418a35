use super::*;
use crate::vocabulary::{CAPABILITIES, FS_OPS, SESSION_OPS, UI_OPS};
use serde_json::json;

fn capability(method: &str, params: Value) -> Result<&'static str, String> {
    let params = params.as_object().unwrap().clone();
    derive(method, &params)
        .map(|required| required.capability)
        .map_err(|error| error.details["reason"].as_str().unwrap().to_owned())
}

#[test]
fn tools_derive_as_document_004_says() {
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
        let writes =
            !matches!(needs, FsNeeds::Path | FsNeeds::Look | FsNeeds::PathOrHandle | FsNeeds::Handle | FsNeeds::Flags);
        assert_eq!(capability("fs", params(op)), Ok(if writes { "write" } else { "read" }), "{op}");
    }
    assert_eq!(capability("fs", json!({"op": "chown", "path": "a"})), Err("schema".into()));
}

#[test]
fn rename_and_link_need_write_at_both_ends_and_copy_reads_its_source() {
    let both = |op: &str| {
        let params = json!({"op": op, "from": "a", "to": "b"});
        match derive("fs", params.as_object().unwrap()).unwrap().subject {
            Subject::Paths(first, Some(second)) => (first.access, second.access),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(both("rename"), (Access::Write, Access::Write));
    assert_eq!(both("link"), (Access::Write, Access::Write));
    assert_eq!(both("copyFile"), (Access::Read, Access::Write));
    assert_eq!(both("cp"), (Access::Read, Access::Write));
}

#[test]
fn open_needs_write_whenever_anything_could_change() {
    for flags in [json!(null), json!("r"), json!("rs"), json!(0)] {
        assert_eq!(capability("fs", json!({"op": "open", "path": "a", "flags": flags})), Ok("read"), "{flags}");
    }
    for flags in [
        json!("r+"),
        json!("w"),
        json!("wx+"),
        json!("a"),
        json!(1),
        json!(2),
        json!(0o1000),
        json!(0o100),
        json!(0o2001),
    ] {
        assert_eq!(capability("fs", json!({"op": "open", "path": "a", "flags": flags})), Ok("write"), "{flags}");
    }
    for flags in [json!("q"), json!("rx"), json!("rw"), json!(""), json!(3), json!(1_u64 << 40), json!(-1), json!([])] {
        assert_eq!(
            capability("fs", json!({"op": "open", "path": "a", "flags": flags})),
            Err("schema".into()),
            "{flags}"
        );
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
fn an_editor_of_an_extension_says_nothing_that_the_extension_may_not_do() {
    let said = |text: &str| json!({"op": "editor_submit", "text": text});
    assert_eq!(capability("ui", said("hello")), Ok("session.inject"));
    assert_eq!(capability("ui", said("  /reload")), Ok("session.control"));
    assert_eq!(capability("ui", said("!ls")), Ok("exec"));
    assert_eq!(capability("ui", json!({"op": "editor_submit"})), Err("schema".into()));
    let params = said(" !! rm -rf / ");
    let required = derive("ui", params.as_object().expect("an object")).expect("known");
    let program = Subject::Program { command: "bash", args: vec!["-c", "rm -rf /"], cwd: None };
    assert_eq!(required.subject, program);
}

#[test]
fn what_derives_is_described_for_people() {
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
        ("module", json!({"op": "compile"})),
        ("env", json!({"op": "get", "names": ["A"]})),
        ("exec", json!({"command": "ls"})),
        ("http", json!({"url": "https://x.org/"})),
    ] {
        assert_eq!(capability(method, params), Ok(CAPABILITIES.iter().find(|(name, _)| *name == method).unwrap().0));
    }
}

/// A program or a request that is under way was decided when it was started; starting one never is.
#[test]
fn what_is_under_way_needs_no_second_decision() {
    for (method, params, by_handle) in [
        ("exec", json!({"op": "wait", "pid": 1}), true),
        ("exec", json!({"op": "kill", "pid": 1, "command": "sh"}), true),
        ("exec", json!({"op": "spawn", "command": "sh"}), false),
        ("http", json!({"op": "send", "upload": "1", "url": "https://x.org/"}), true),
        ("http", json!({"url": "https://x.org/", "upload": "1"}), false),
    ] {
        let required = derive(method, params.as_object().unwrap()).unwrap();
        assert_eq!((required.capability, required.subject == Subject::Handle), (method, by_handle), "{params}");
    }
    for (method, op) in [("exec", "run"), ("exec", ""), ("http", "fetch"), ("http", "wait")] {
        assert_eq!(
            capability(method, json!({"op": op, "command": "x", "url": "https://x.org/"})),
            Err("schema".into())
        );
    }
}

#[test]
fn an_url_names_its_host_and_port_exactly() {
    let host = |url: &str| {
        HttpTarget::parse(url).map(|target| (target.host, target.port)).map_err(|error| error.details["reason"].clone())
    };
    assert_eq!(host("https://GitHub.COM./x"), Ok(("github.com".into(), 443)));
    assert_eq!(host("http://[::1]:8080/"), Ok(("[::1]".into(), 8080)));
    assert_eq!(host("http://0x7f.1/"), Ok(("127.0.0.1".into(), 80)));
    for bad in [
        "ftp://x/",
        "file:///etc/passwd",
        "https://user@x/",
        "https://u:p@x/",
        "not an url",
        "http://",
        "data:text/plain,x",
    ] {
        assert_eq!(host(bad), Err(json!("url")), "{bad}");
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
        ("nonsense", json!({})),
    ] {
        assert_eq!(capability(method, params.clone()), Err("schema".into()), "{method} {params}");
    }
}
