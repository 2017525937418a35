//! `pi demo`: the main job, offline, in a throw-away home.
//!
//! Installs the packaged pi-ttsr, streams a recorded reply that breaks a rule, and reports the events: the delta that triggered
//! the rule, the discarded text, the injected rule, the clean retry, the hostcalls, and the time spent in verdicts. All output
//! comes from the run itself, except for the deltas that were never displayed, which are read from the recording.

use crate::args::{InstallArgs, RunArgs};
use crate::output::stdout;
use crate::packages;
use crate::print::Answering;
use crate::prompts::Prompts;
use crate::session::assemble;
use crate::terminal::at_once;
use pijs_agent::{AgentEvent, FrontEnd};
use pijs_host::VerdictTime;
use pijs_hostcall::MemorySink;
use pijs_llm::message::Message;
use pijs_llm::update::UpdateKind;
use pijs_runtime::Environment;
use pijs_runtime::{Result, UserError};
use serde_json::{Value, json};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

/// The files of the package, as published.
const PACKAGE: &[(&str, &str)] = &[
    ("package.json", include_str!("../../../fixtures/packages/pi-ttsr/package.json")),
    ("README.md", include_str!("../../../fixtures/packages/pi-ttsr/README.md")),
    ("extensions/ttsr/index.ts", include_str!("../../../fixtures/packages/pi-ttsr/extensions/ttsr/index.ts")),
    ("extensions/ttsr/loader.ts", include_str!("../../../fixtures/packages/pi-ttsr/extensions/ttsr/loader.ts")),
    ("extensions/ttsr/matcher.ts", include_str!("../../../fixtures/packages/pi-ttsr/extensions/ttsr/matcher.ts")),
    ("extensions/ttsr/state.ts", include_str!("../../../fixtures/packages/pi-ttsr/extensions/ttsr/state.ts")),
];
const RULE: &str = include_str!("../demo/no-old-sdk.md");
const RECORDING: &str = include_str!("../demo/reply.jsonl");
const PROMPT: &str = "write a client for the orders service";

pub(crate) async fn run(environment: &Environment, as_json: bool) -> Result<()> {
    let folder = tempfile::tempdir().map_err(|error| UserError::failed(format!("no temporary folder: {error}")))?;
    let away = furnish(environment, folder.path())
        .map_err(|error| UserError::failed(format!("{}: {error}", folder.path().display())))?;
    let say = |line: &str| {
        if !as_json {
            stdout(line);
        }
    };

    say("pi install ./pi-ttsr        (into a throw-away home)");
    let source = away.dirs.cwd.join("../pi-ttsr").display().to_string();
    let install = InstallArgs { source: Some(source), ..InstallArgs::default() };
    packages::install_quietly(&away, &install).await?;
    say("  done\n\n.pi/rules/no-old-sdk.md");
    RULE.lines().for_each(|line| say(&format!("  | {line}")));
    say(&format!("\npi -p '{PROMPT}' --model script:reply.jsonl"));

    let seen = CapturedOutput::default();
    let ledger = MemorySink::new();
    let args = RunArgs {
        model: Some(format!("script:{}", away.dirs.cwd.join("reply.jsonl").display())),
        ..RunArgs::default()
    };
    let interface = at_once(&away, true, Box::new(seen.clone()));
    let session = Answering(assemble(&away, &args, Vec::new(), interface, Some(ledger.clone())).await?);
    let host = session.host.clone();
    host.run(session.run(Prompts::once(PROMPT), false, &Cell::new(false))).await?;
    session.finish();

    let story = DemoReport::of(&seen, &ledger.lines(), session.host.verdict_time())?;
    if as_json {
        stdout(&story.to_json().to_string());
    } else {
        story.tell();
    }
    Ok(())
}

/// Creates a home, a project with a rule and a recording, and the package.
fn furnish(environment: &Environment, folder: &Path) -> io::Result<Environment> {
    let folder = folder.canonicalize()?;
    let mut away = environment.clone();
    away.dirs.home = folder.join("home");
    away.dirs.agent_dir = away.dirs.home.join(".pi/agent");
    away.dirs.cwd = folder.join("project");
    away.temp = folder.join("tmp");
    away.variables.insert("HOME".to_owned(), away.dirs.home.display().to_string());
    away.variables.retain(|name, _| !name.starts_with("PI_"));
    away.variables.insert("PIJS_WORDS".to_owned(), "own".to_owned());
    // The demo does not prompt.
    away.stdin_is_terminal = false;
    let write = |path: std::path::PathBuf, text: &str| {
        fs::create_dir_all(path.parent().expect("below the folder"))?;
        fs::write(path, text)
    };
    for (path, text) in PACKAGE {
        write(folder.join("pi-ttsr").join(path), text)?;
    }
    write(away.dirs.cwd.join(".pi/rules/no-old-sdk.md"), RULE)?;
    write(away.dirs.cwd.join("reply.jsonl"), RECORDING)?;
    fs::create_dir_all(&away.dirs.home)?;
    fs::create_dir_all(&away.temp)?;
    Ok(away)
}

/// The output of the front end.
#[derive(Clone, Default)]
struct CapturedOutput(Arc<Mutex<CapturedText>>);

#[derive(Default)]
struct CapturedText {
    /// Displayed text, by attempt.
    attempts: Vec<String>,
    verdict: Option<Value>,
    discarded: Option<Value>,
    injected: Vec<String>,
}

impl FrontEnd for CapturedOutput {
    fn event(&mut self, event: &AgentEvent<'_>) -> io::Result<()> {
        let mut shown = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match event {
            AgentEvent::MessageStart { message: Message::Assistant(_) } => shown.attempts.push(String::new()),
            AgentEvent::MessageUpdate { update, .. } => {
                if let (UpdateKind::TextDelta(delta), Some(text)) = (update.kind, shown.attempts.last_mut()) {
                    text.push_str(delta);
                }
            }
            AgentEvent::StreamVerdict(_) => shown.verdict = Some(Value::Object(event.payload())),
            AgentEvent::MessageDiscarded { .. } => shown.discarded = Some(Value::Object(event.payload())),
            AgentEvent::MessageEnd { message: Message::Custom(message) } => shown.injected.push(message.content.text()),
            _ => {}
        }
        Ok(())
    }
}

/// The events of the run, in the order of the report.
struct DemoReport {
    discarded: String,
    tripped: String,
    never_asked_for: usize,
    verdict: Value,
    tokens_burned: u64,
    injected: String,
    reply: String,
    /// Hostcalls by capability, and the number of denied ones.
    calls: BTreeMap<String, usize>,
    denied: usize,
    verdict_us: u64,
    time: VerdictTime,
}

impl DemoReport {
    fn of(seen: &CapturedOutput, ledger: &[Value], time: VerdictTime) -> Result<Self> {
        let shown = seen.0.lock().unwrap_or_else(PoisonError::into_inner);
        let missing = |what: &str| UserError::failed(format!("the demonstration did not show {what}"));
        let [discarded, reply] = shown.attempts.as_slice() else {
            return Err(missing("a discarded reply and a retry"));
        };
        let verdict = shown.verdict.clone().ok_or_else(|| missing("a verdict"))?;
        let recorded = recorded_deltas().ok_or_else(|| missing("its recording"))?;
        let let_through = recorded
            .iter()
            .scan(0, |sum, delta| {
                *sum += delta.len();
                Some(*sum)
            })
            .take_while(|end| *end <= discarded.len())
            .count();
        let mut calls = BTreeMap::new();
        let mut denied = 0;
        for line in ledger.iter().filter(|line| line["event"] == "host_call.end") {
            *calls.entry(line["data"]["capability"].as_str().unwrap_or("?").to_owned()).or_insert(0) += 1;
            denied += usize::from(line["data"]["error"]["code"] == "denied");
        }
        Ok(Self {
            tripped: recorded.get(let_through).cloned().unwrap_or_default(),
            never_asked_for: recorded.len().saturating_sub(let_through + 1),
            discarded: discarded.clone(),
            tokens_burned: shown.discarded.as_ref().and_then(|event| event["tokens_burned"].as_u64()).unwrap_or(0),
            injected: shown.injected.first().cloned().ok_or_else(|| missing("an injected rule"))?,
            reply: reply.clone(),
            calls,
            denied,
            verdict_us: verdict["latency_us"].as_u64().unwrap_or(0),
            verdict,
            time,
        })
    }

    fn tell(&self) {
        let block = |text: &str| text.lines().for_each(|line| stdout(&format!("  | {line}")));
        stdout("\nthe model streams:");
        block(&self.discarded);
        stdout(&format!("\nthe next delta is {:?}", self.tripped));
        stdout(&format!(
            "  it completes a match: pi-ttsr answers *abort* in {} us, before anyone sees the delta",
            self.verdict_us
        ));
        stdout(&format!(
            "  discarded: {} characters let through so far, about {} tokens; {} deltas were never asked for",
            self.discarded.chars().count(),
            self.tokens_burned,
            self.never_asked_for
        ));
        stdout("\ninjected, and the turn is tried again:");
        block(&self.injected);
        stdout("\nthe model streams:");
        block(&self.reply);
        let total: usize = self.calls.values().sum();
        let by: Vec<String> = self.calls.iter().map(|(capability, count)| format!("{count} {capability}")).collect();
        stdout(&format!(
            "\nhostcalls: {total} ({}), {} denied, all in the ledger\ntime in verdicts: {} us for {} deltas",
            by.join(", "),
            self.denied,
            self.time.elapsed_us,
            self.time.deltas
        ));
        stdout(
            "\nNext: pi install ./fixtures/packages/pi-ttsr, write rules to .pi/rules/*.md, and use --model anthropic/NAME or openai/NAME.",
        );
    }

    fn to_json(&self) -> Value {
        json!({
            "discarded": self.discarded, "tripped_by": self.tripped, "never_asked_for": self.never_asked_for,
            "verdict": self.verdict, "tokens_burned": self.tokens_burned, "injected": self.injected, "reply": self.reply,
            "hostcalls": self.calls, "denied": self.denied,
            "verdict_time": { "deltas": self.time.deltas, "elapsed_us": self.time.elapsed_us },
        })
    }
}

/// Returns the deltas of the first recorded reply.
fn recorded_deltas() -> Option<Vec<String>> {
    let line: Value = serde_json::from_str(RECORDING.lines().next()?).ok()?;
    line["events"].as_array()?.iter().map(|event| event["text"].as_str().map(str::to_owned)).collect()
}
