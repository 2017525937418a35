use super::*;
use crate::message::{AssistantMessage, Block, StopReason, Usage};
use crate::testing;
use serde_json::{Value, json};
use std::fs;

fn assistant(text: &str) -> Message {
    Message::Assistant(AssistantMessage {
        content: vec![Block::text(text)],
        api: "script".into(),
        provider: "script".into(),
        model: "m".into(),
        usage: Usage::default(),
        stop_reason: StopReason::Stop,
        error_message: None,
        timestamp: 2,
        extra: Map::new(),
    })
}

fn lines(path: &Path) -> Vec<Value> {
    fs::read_to_string(path).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn nothing_is_on_disk_before_the_first_assistant_message() {
    let dir = tempfile::tempdir().unwrap();
    let mut session = Session::create_in(&dir.path().join("deep"), Path::new("/w"), testing::ambient());
    session.append_message(&Message::user("hi", 1)).unwrap();
    let path = session.path().unwrap().to_owned();
    assert!(!path.exists());
    session.append_message(&assistant("yo")).unwrap();
    assert_eq!(lines(&path).len(), 3);
    session.append(Body::SessionInfo { name: Some("n".into()) }).unwrap();
    let written = lines(&path);
    assert_eq!(written.len(), 4);
    assert_eq!(written[0]["version"], 3);
    assert_eq!(written[1]["parentId"], Value::Null);
    for pair in written[1..].windows(2) {
        assert_eq!(pair[1]["parentId"], pair[0]["id"]);
        assert_eq!(pair[0]["id"].as_str().unwrap().len(), 8);
    }
}

#[test]
fn a_reopened_session_goes_on_below_its_leaf() {
    let dir = tempfile::tempdir().unwrap();
    let mut session = Session::create_in(dir.path(), Path::new("/w"), testing::ambient());
    session.append_message(&Message::user("hi", 1)).unwrap();
    session.append_message(&assistant("yo")).unwrap();
    let path = session.path().unwrap().to_owned();
    let leaf = session.leaf().cloned();
    let mut again = Session::open_latest(dir.path(), Path::new("/w"), testing::ambient_from(100)).unwrap().unwrap();
    assert_eq!(again.path(), Some(path.as_path()));
    assert_eq!(again.header(), session.header());
    assert_eq!(again.leaf(), leaf.as_ref());
    again.append(Body::Custom { custom_type: "c".into(), data: None }).unwrap();
    assert_eq!(lines(&path).last().unwrap()["parentId"], json!(leaf));
}

#[test]
fn a_torn_last_line_is_cut_off_before_the_next_append() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.jsonl");
    let header = r#"{"type":"session","version":3,"id":"x","timestamp":"t","cwd":"/w"}"#;
    let entry = r#"{"type":"session_info","id":"aaaaaaaa","parentId":null,"timestamp":"t","name":"n"}"#;
    for (tail, expected) in [("{\"type\":\"sess", 3), ("", 3), ("not json\n", 3)] {
        fs::write(&path, format!("{header}\n{entry}\n{tail}")).unwrap();
        let mut session = Session::open(&path, Path::new("/w"), testing::ambient()).unwrap();
        assert_eq!(session.entries().len(), 1);
        session.append(Body::SessionInfo { name: None }).unwrap();
        let text = fs::read_to_string(&path).unwrap();
        let whole = text.lines().filter(|line| serde_json::from_str::<Value>(line).is_ok()).count();
        assert_eq!(whole, expected, "{text}");
        assert!(!text.contains("sess\n") && !text.contains("\"sess{"), "{text}");
    }
    // Whole, only its line break is missing.
    fs::write(&path, format!("{header}\n{entry}")).unwrap();
    let mut session = Session::open(&path, Path::new("/w"), testing::ambient()).unwrap();
    session.append(Body::SessionInfo { name: None }).unwrap();
    assert_eq!(lines(&path).len(), 3);
}

#[test]
fn another_version_and_a_file_that_is_no_session_are_refused_and_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.jsonl");
    for (text, word) in
        [("{\"type\":\"session\",\"id\":\"x\",\"timestamp\":\"t\"}\n", "version 0"), ("# notes\n", "no session header")]
    {
        fs::write(&path, text).unwrap();
        let error = Session::open(&path, Path::new("/w"), testing::ambient()).err().unwrap();
        assert!(error.to_string().contains(word), "{error}");
        assert_eq!(fs::read_to_string(&path).unwrap(), text);
    }
}

#[test]
fn a_circle_of_parents_ends() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.jsonl");
    let entry =
        |id: &str, parent: &str| json!({"type": "session_info", "id": id, "parentId": parent, "timestamp": "t"});
    let header = json!({"type": "session", "version": 3, "id": "x", "timestamp": "t", "cwd": "/w"});
    fs::write(&path, format!("{header}\n{}\n{}\n", entry("a", "b"), entry("b", "a"))).unwrap();
    let session = Session::open(&path, Path::new("/w"), testing::ambient()).unwrap();
    assert_eq!(session.branch(None).len(), 2);
}

#[test]
fn directories_and_names_are_pis() {
    assert_eq!(
        file::directory(Path::new("/h/.pi/agent"), Path::new("/home/u/x:y")),
        Path::new("/h/.pi/agent/sessions/--home-u-x-y--")
    );
    assert_eq!(file::name("2026-01-02T03:04:05.678Z", "ID"), "2026-01-02T03-04-05-678Z_ID.jsonl");
}
