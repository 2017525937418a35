//! Tests how the profile of pi 0.73.1 is selected, and RPC mode under it. Scenarios test the behaviour of that version:
//! `fixtures/legacy`, played by `scenarios.rs`.

use serde_json::Value;
use std::io::{BufRead, Write};
use std::process::Command;

#[test]
fn an_option_or_the_settings_select_the_profile() {
    let world = tempfile::tempdir().expect("a folder");
    let at = |name: &str| world.path().join(name);
    std::fs::create_dir_all(at("home/.pi/agent")).expect("folders");
    std::fs::write(
        at("main.ts"),
        "import { VERSION } from '@mariozechner/pi-coding-agent';\nexport default (pi) => pi.on('session_start', (_, ctx) => console.error(`@${VERSION} ${'mode' in ctx}`));\n",
    )
    .expect("written");
    std::fs::write(at("model.jsonl"), r#"{"events": [{"text": "hello"}], "stop": "end_turn"}"#).expect("written");
    let run = |settings: &str, profile: &[&str]| {
        std::fs::write(at("home/.pi/agent/settings.json"), settings).expect("written");
        let output = Command::new(env!("CARGO_BIN_EXE_pi-attacked"))
            .args(["-p", "x", "--no-session", "--model", &format!("script:{}", at("model.jsonl").display())])
            .args(["-e", &at("main.ts").display().to_string()])
            .args(profile)
            .current_dir(world.path())
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .env("HOME", at("home"))
            .stdin(std::process::Stdio::null())
            .output()
            .expect("pi starts");
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let said = |settings: &str, profile: &[&str], wanted: &str| {
        let (code, stderr) = run(settings, profile);
        assert_eq!(code, Some(0), "{stderr}");
        assert!(stderr.contains(wanted), "{profile:?} with {settings}: {stderr}");
    };
    said("{}", &[], "@0.87.1 true");
    said("{}", &["--profile", "0.73"], "@0.73.1 false");
    said(r#"{"extensionProfile": "0.73"}"#, &[], "@0.73.1 false");
    said(r#"{"extensionProfile": "0.73"}"#, &["--profile", "0.87"], "@0.87.1 true");
    let (code, stderr) = run("{}", &["--profile", "0.5"]);
    assert_eq!(code, Some(2), "{stderr}");
    assert!(stderr.contains("0.73"), "{stderr}");
    let (code, stderr) = run(r#"{"extensionProfile": "0.5"}"#, &[]);
    assert_eq!(code, Some(1), "{stderr}");
    assert!(stderr.contains("extensionProfile") && stderr.contains("0.73"), "{stderr}");
}

/// Handlers of `user_bash` receive a client's `bash` command only in later versions of pi.
#[test]
fn a_clients_bash_command_runs_no_user_bash_handlers() {
    let world = tempfile::tempdir().expect("a folder");
    let main = world.path().join("main.ts");
    let source = "export default (pi) => pi.on('user_bash', ({ command }) => ({ result: { output: `instead of ${command}`, exitCode: 0, cancelled: false, truncated: false } }));\n";
    std::fs::write(&main, source).expect("written");
    let answered = |profile: &str| {
        let mut child = Command::new(env!("CARGO_BIN_EXE_pi-attacked"))
            .args(["--mode", "rpc", "--no-session", "--model", "script:/dev/null", "--profile", profile, "-e"])
            .arg(&main)
            .current_dir(world.path())
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .env("HOME", world.path())
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped())
            .spawn()
            .expect("pi starts");
        let mut stdin = child.stdin.take().expect("a pipe");
        stdin.write_all(b"{\"id\": \"1\", \"type\": \"bash\", \"command\": \"echo said\"}\n").expect("written");
        let mut lines = std::io::BufReader::new(child.stdout.take().expect("a pipe")).lines();
        let response = lines
            .by_ref()
            .map(|line| serde_json::from_str::<Value>(&line.expect("text")).expect("JSON"))
            .find(|line| line["type"] == "response")
            .expect("an answer");
        drop(stdin);
        lines.for_each(drop);
        child.wait().expect("it ends");
        response["data"]["output"].as_str().unwrap_or_else(|| panic!("{response}")).to_owned()
    };
    assert_eq!(answered("0.73"), "said\n");
    assert_eq!(answered("0.87"), "instead of echo said");
}
