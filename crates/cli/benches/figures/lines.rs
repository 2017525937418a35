//! Measures the size and the time of json mode's output for replies of several lengths: both grow linearly with the length, not
//! quadratically. A script provides the reply, in deltas of 8 bytes.

use crate::http::agent_with;
use crate::table::{Figure, Samples, nanoseconds, time};
use pijs_agent::{JsonFrontEnd, NoExtensions};
use pijs_llm::provider::ProviderOptions;
use serde_json::{Value, json};
use std::cell::Cell;
use std::io::{self, Write};
use std::rc::Rc;

/// Lengths of the reply in KB.
const LENGTHS: [usize; 4] = [8, 32, 128, 512];
const RUNS: usize = 5;

pub(crate) fn figures() -> Vec<Figure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let local = tokio::task::LocalSet::new();
    let measured = |length: &usize| {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let events: Vec<Value> = (0..length * 128).map(|_| json!({"text": "8 bytes "})).collect();
        let script = directory.path().join("reply.jsonl");
        std::fs::write(&script, json!({"events": events, "stop": "end_turn"}).to_string()).expect("a script");
        let bytes = Rc::new(Cell::new(0));
        let run = || {
            bytes.set(0);
            let front_end = Box::new(JsonFrontEnd::new(Counted(Rc::clone(&bytes))));
            let model = format!("script:{}", script.display());
            let agent = agent_with(&model, &ProviderOptions::default(), Rc::new(NoExtensions), front_end);
            nanoseconds(time(|| drop(local.block_on(&runtime, agent.prompt("x")).expect("the run ends"))))
        };
        run();
        let samples = Samples::of((0..RUNS).map(|_| run()).collect());
        let written = bytes.get() >> 10;
        let work =
            format!("json mode, a reply of {length} KB: {written} KB of lines, {} times as much", written / length);
        Figure { work: work.into(), samples, peer: None, target: None }
    };
    LENGTHS.iter().map(measured).collect()
}

/// Counts bytes and discards them.
struct Counted(Rc<Cell<usize>>);

impl Write for Counted {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.set(self.0.get() + bytes.len());
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
