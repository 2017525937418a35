//! Runs `pi-attacked` in a world and checks the case's expectations.

use crate::case::{Expect, Pi, Terminal, Typed};
use crate::expect::{self, RunOutput};
use crate::supervise::{self, Order, Outcome};
use crate::world::World;
use serde_json::{Value, json};
use std::fs::File;
use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// Factor for the time limits of a case, so that only a hang reaches them, even on a busy machine. If a hang is the expected
/// failure of a lowered guard, the limits are not multiplied.
const PATIENCE: u32 = 4;
/// Time that descendants have to exit (N5), before [`patience`] multiplies it.
const GRACE: Duration = Duration::from_secs(2);

/// Returns a time limit of a case in this mode.
fn patience(world: &World, limit: Duration) -> Duration {
    if world.mode.may_hang { limit } else { limit * PATIENCE }
}

/// The result of one run.
#[derive(Debug, Default)]
pub(crate) struct Ran {
    pub(crate) said: RunOutput,
    /// Whether the case killed the program, so that calls may lack their end.
    pub(crate) killed: bool,
}

/// Runs `pi` and checks the expectations.
pub(crate) fn pi(world: &World, pi: &Pi) -> Result<Ran, String> {
    let mode = &world.mode;
    let expected = pi.expect_under.get(&mode.policy).or_else(|| pi.expect_under.get(&mode.isolation));
    let expected = expected.unwrap_or(&pi.expect);
    let started = Instant::now();
    let (outcome, said) = run(world, pi)?;
    let took = started.elapsed();
    world.note(&format!("$ pi {:?} -> {:?} {:?}", pi.args.as_ref().unwrap_or(&pi.flags), outcome.code, outcome.signal));
    for (name, text) in [("stdout", &said.stdout), ("stderr", &said.stderr), ("screen", &said.screen)] {
        if !text.is_empty() {
            world.note(&format!("--- {name}\n{}", shortened(text)));
        }
    }
    for (name, text) in [("stderr", &said.stderr), ("screen", &said.screen), ("stdout", &said.stdout)] {
        if text.contains("panicked at") {
            return Err(format!("N7: a panic on {name}"));
        }
    }
    if outcome.stuck {
        return Err(format!("N7: still running after {took:?}"));
    }
    if !outcome.left.is_empty() {
        return Err(format!("N5: left behind: {:?}", outcome.left));
    }
    if let Some(signal) = outcome.signal
        && expected.signal != Some(signal)
        && !outcome.killed
    {
        return Err(format!("ended by signal {signal}"));
    }
    if pi.neighbour && !outcome.killed && said.reports().get("neighbour") != Some(&json!("saw everything")) {
        return Err("N3: the neighbour did not see the whole session".to_owned());
    }
    check(world, expected, &outcome, &said, took)?;
    Ok(Ran { said, killed: outcome.killed })
}

fn shortened(text: &str) -> String {
    if text.len() <= 6_000 {
        return text.to_owned();
    }
    let (head, tail) = (text.floor_char_boundary(4_000), text.ceil_char_boundary(text.len() - 2_000));
    format!("{}\n[... {} bytes ...]\n{}", &text[..head], tail - head, &text[tail..])
}

fn check(world: &World, expected: &Expect, outcome: &Outcome, said: &RunOutput, took: Duration) -> Result<(), String> {
    match (&expected.exit, outcome.code) {
        (Some(exits), Some(code)) if !exits.contains(code) => {
            return Err(format!("exit code {code}, expected {exits:?}"));
        }
        (Some(exits), None) => return Err(format!("no exit code, expected {exits:?}")),
        _ => {}
    }
    if let Some(most) = expected.within_ms
        && took > patience(world, Duration::from_millis(most))
    {
        return Err(format!("took {took:?}, more than {most} ms"));
    }
    expect::words(expected, said)?;
    expect::values(world, expected, said)
}

fn arguments(world: &World, pi: &Pi) -> Result<Vec<String>, String> {
    if let Some(args) = &pi.args {
        return Ok(args.clone());
    }
    let file = world.path(&format!("model-{}.jsonl", world.next_run()));
    let fine = vec![json!({ "events": [{ "text": "fine" }], "stop": "end_turn" }); 20];
    let lines: Vec<String> = pi.model.as_ref().unwrap_or(&fine).iter().map(Value::to_string).collect();
    std::fs::write(&file, lines.join("\n") + "\n").map_err(|error| error.to_string())?;
    let mut args = vec!["--no-extensions".to_owned()];
    if !pi.interactive {
        args.extend(["-p".to_owned(), pi.prompt.clone()]);
    }
    args.extend(["--policy".to_owned(), world.mode.policy.clone()]);
    args.extend(["--isolation".to_owned(), world.mode.isolation.clone()]);
    if !pi.flags.iter().any(|flag| flag == "--model") {
        args.extend(["--model".to_owned(), format!("script:{}", file.display())]);
    }
    let neighbour = pi.neighbour.then_some("neighbour.ts");
    for extension in neighbour.into_iter().chain(pi.extensions.iter().map(String::as_str)) {
        args.extend(["-e".to_owned(), world.path("extension").join(extension).display().to_string()]);
    }
    // A run that loads installed extensions has this flag.
    if pi.flags.iter().any(|flag| flag == "--with-installed") {
        args.retain(|arg| arg != "--no-extensions");
    }
    args.extend(pi.flags.iter().filter(|flag| *flag != "--with-installed").cloned());
    Ok(args)
}

fn run(world: &World, pi: &Pi) -> Result<(Outcome, RunOutput), String> {
    let report = world.path(&format!("supervisor-{}.json", world.next_run()));
    let kill_after_us = pi.kill.as_ref().and_then(|kill| kill.within_ms).map(|most| random_below(most * 1_000));
    if let Some(after) = kill_after_us {
        world.note(&format!("killed after {after} us"));
    }
    let order = Order {
        report: report.clone(),
        program: env!("CARGO_BIN_EXE_pi-attacked").into(),
        args: arguments(world, pi)?,
        deadline: patience(world, Duration::from_millis(pi.deadline_ms)),
        grace: patience(world, GRACE),
        kill_when_file: pi.kill.as_ref().and_then(|kill| kill.when_file.as_ref()).map(|file| world.path(file)),
        kill_after_us,
        signal: signal(pi.kill.as_ref().map_or("KILL", |kill| &kill.signal))?,
    };
    let mut command = Command::new(std::env::current_exe().map_err(|error| error.to_string())?);
    command
        .arg(supervise::FLAG)
        .arg(serde_json::to_string(&order).expect("plain data"))
        .current_dir(world.path(pi.cwd.as_deref().unwrap_or("project")))
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .env("HOME", world.path("home"))
        .env("XDG_CACHE_HOME", world.path("cache"))
        // Limits downloads to those of the case.
        .env("PIJS_WORDS", "own")
        .env("TMPDIR", world.path("tmp"))
        .env("ATTACK_CANARY", &world.canaries.env)
        .envs(&pi.env);
    for name in &pi.without_env {
        command.env_remove(name);
    }
    if !world.mode.down.is_empty() {
        command.env(pijs_protocol::guard::VARIABLE, &world.mode.down);
    }
    let said = match &pi.terminal {
        Some(terminal) => at_a_terminal(&mut command, terminal, pi.stdin.as_deref())?,
        None => in_pipes(&mut command, pi)?,
    };
    let text = std::fs::read(&report).map_err(|error| format!("the supervisor did not report: {error}"))?;
    let outcome = serde_json::from_slice(&text).map_err(|error| error.to_string())?;
    let _ = std::fs::remove_file(&report);
    Ok((outcome, said))
}

fn signal(name: &str) -> Result<i32, String> {
    Ok(match name {
        "HUP" => 1,
        "INT" => 2,
        "KILL" => 9,
        "TERM" => 15,
        other => return Err(format!("no signal is called {other}")),
    })
}

fn random_below(most: u64) -> u64 {
    use std::hash::{BuildHasher, Hasher};
    std::collections::hash_map::RandomState::new().build_hasher().finish() % most.max(1)
}

fn in_pipes(command: &mut Command, pi: &Pi) -> Result<RunOutput, String> {
    let stdin = pi.stdin.as_deref();
    let input = if stdin.is_some() { Stdio::piped() } else { Stdio::null() };
    let spawned = command.stdin(input).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child: Child = spawned.map_err(|error| error.to_string())?;
    if let (Some(text), Some(mut pipe)) = (stdin, child.stdin.take()) {
        // The program may exit without reading its input.
        let _ = pipe.write_all(text.as_bytes());
    }
    let unread = if pi.unread { child.stdout.take() } else { None };
    let mut output = child.wait_with_output().map_err(|error| error.to_string())?;
    if let Some(mut pipe) = unread {
        pipe.read_to_end(&mut output.stdout).map_err(|error| error.to_string())?;
    }
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    Ok(RunOutput { stdout: text(output.stdout), stderr: text(output.stderr), screen: String::new() })
}

/// Opens a pseudo-terminal for input and standard error, and for standard output if requested.
fn at_a_terminal(command: &mut Command, terminal: &Terminal, stdin: Option<&str>) -> Result<RunOutput, String> {
    let pty = nix::pty::openpty(None, None).map_err(|error| format!("no pseudo-terminal: {error}"))?;
    let open = || pty.slave.try_clone().map(Stdio::from).map_err(|error| error.to_string());
    command.stdin(open()?).stderr(open()?);
    let out = if terminal.stdout { open()? } else { Stdio::piped() };
    let mut child = command.stdout(out).spawn().map_err(|error| error.to_string())?;
    // Reading ends when no process holds the other side, so this process closes its handles.
    drop(pty.slave);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut pipe = child.stdout.take();
    let collected = std::thread::spawn(move || {
        let mut text = Vec::new();
        if let Some(pipe) = &mut pipe {
            let _ = pipe.read_to_end(&mut text);
        }
        text
    });
    let mut master = File::from(pty.master);
    if let Some(text) = stdin {
        master.write_all(text.as_bytes()).map_err(|error| error.to_string())?;
    }
    let (send, written) = channel();
    let mut reader = master.try_clone().map_err(|error| error.to_string())?;
    std::thread::spawn(move || {
        let mut buffer = [0; 4096];
        while let Ok(read @ 1..) = reader.read(&mut buffer)
            && send.send(buffer[..read].to_vec()).is_ok()
        {}
    });
    let mut screen = Vec::new();
    let mut answers = terminal.answers.iter().peekable();
    let mut looked_at = 0;
    // A key that is pressed too early for a prompt is ignored, which happens on a busy machine; a person presses it again.
    let (mut last, mut repeats): (Option<&Typed>, usize) = (None, 0);
    loop {
        match written.recv_timeout(REPEATED_AFTER) {
            Ok(text) => screen.extend_from_slice(&text),
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => {
                repeats += 1;
                if let Some(Typed { text, .. }) = last.filter(|_| repeats <= MAX_REPEATS) {
                    master.write_all(text.as_bytes()).map_err(|error| error.to_string())?;
                }
            }
        }
        while let Some(answer) = answers.peek() {
            let Some(at) = find(&screen[looked_at..], answer.after.as_bytes()) else { break };
            looked_at += at + answer.after.len();
            std::thread::sleep(Duration::from_millis(answer.pause_ms));
            master.write_all(answer.text.as_bytes()).map_err(|error| error.to_string())?;
            let is_key = answer.pause_ms > 0 && answer.text.len() == 1 && answer.text != "\u{3}";
            (last, repeats) = (is_key.then_some(*answer), 0);
            answers.next();
        }
    }
    child.wait().map_err(|error| error.to_string())?;
    let stdout = String::from_utf8_lossy(&collected.join().unwrap_or_default()).into_owned();
    Ok(RunOutput { stdout, stderr: String::new(), screen: String::from_utf8_lossy(&screen).into_owned() })
}

/// Time without output after which the last key is pressed again, and the maximum number of times.
const REPEATED_AFTER: Duration = Duration::from_secs(10);
const MAX_REPEATS: usize = 3;

fn find(text: &[u8], words: &[u8]) -> Option<usize> {
    text.windows(words.len()).position(|window| window == words)
}
