//! A client of `pi --mode rpc` over pipes.

use super::World;
use serde_json::Value;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

/// Time limit of a record; only a hang reaches it.
const PATIENCE: Duration = Duration::from_secs(120);

/// A client that writes commands and reads records.
pub(crate) struct Client {
    pub(crate) child: Child,
    pub(crate) stdin: Option<ChildStdin>,
    pub(crate) records: Receiver<Value>,
    next: u32,
}

impl Client {
    /// Starts `pi --mode rpc` with these options, in the project of a world.
    pub(crate) fn start(world: &World, options: &[&str]) -> Self {
        Self::of(world.command(&[&["--mode", "rpc"], options].concat()))
    }

    /// Starts a client for a prepared command, which must be `pi --mode rpc`.
    pub(crate) fn of(mut command: Command) -> Self {
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn().expect("pi starts");
        let (sender, records) = channel();
        let stdout = BufReader::new(child.stdout.take().expect("piped"));
        std::thread::spawn(move || {
            for line in stdout.split(b'\n') {
                let line = line.expect("stdout can be read");
                let record = serde_json::from_slice(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"));
                if sender.send(record).is_err() {
                    return;
                }
            }
        });
        let stdin = child.stdin.take();
        Self { child, stdin, records, next: 0 }
    }

    pub(crate) fn write(&mut self, record: &Value) {
        self.write_line(&record.to_string());
    }

    pub(crate) fn write_line(&mut self, line: &str) {
        let stdin = self.stdin.as_mut().expect("the input is open");
        stdin.write_all(format!("{line}\n").as_bytes()).expect("pi reads");
        stdin.flush().expect("pi reads");
    }

    /// Sends a command and returns its id.
    pub(crate) fn send(&mut self, mut command: Value) -> String {
        self.next += 1;
        let id = format!("req-{}", self.next);
        command["id"] = id.clone().into();
        self.write(&command);
        id
    }

    /// Reads records up to the matching one; returns the earlier ones and the match.
    #[track_caller]
    pub(crate) fn until(&self, fits: impl Fn(&Value) -> bool) -> (Vec<Value>, Value) {
        let mut before = Vec::new();
        loop {
            let record =
                self.records.recv_timeout(PATIENCE).unwrap_or_else(|error| panic!("{error}; so far: {before:#?}"));
            if fits(&record) {
                return (before, record);
            }
            before.push(record);
        }
    }

    #[track_caller]
    pub(crate) fn response(&self, id: &str) -> Value {
        self.until(|record| record["type"] == "response" && record["id"] == id).1
    }

    #[track_caller]
    pub(crate) fn call(&mut self, command: Value) -> Value {
        let id = self.send(command);
        self.response(&id)
    }

    #[track_caller]
    pub(crate) fn request(&self, method: &str) -> Value {
        self.until(|record| record["type"] == "extension_ui_request" && record["method"] == method).1
    }

    /// Closes the input and returns the remaining records, until the program exits.
    pub(crate) fn rest(mut self) -> Vec<Value> {
        drop(self.stdin.take());
        let mut rest = Vec::new();
        while let Ok(record) = self.records.recv_timeout(PATIENCE) {
            rest.push(record);
        }
        assert!(self.child.wait().expect("pi ends").success());
        rest
    }

    /// Closes the input and waits until the program exits; returns the exit code.
    #[track_caller]
    pub(crate) fn end(mut self) -> i32 {
        drop(self.stdin.take());
        // The output ends when the program exits.
        while self.records.recv_timeout(PATIENCE).is_ok() {}
        self.child.wait().expect("pi ends").code().expect("no signal")
    }
}
