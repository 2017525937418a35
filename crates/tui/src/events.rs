//! Shows events of the agent and the host.

use super::inserted_text::author_of_message;
use super::screen::Screen;
use super::selections::model_name;
use super::tools::USER_COMMAND;
use super::transcript::{BlockContent, MAX_BLOCKS, Style, ToolBlock};
use super::view::{Retrying, View};
use pijs_agent::{AgentEvent, FrontEnd, StateSink};
use pijs_host::{ExtensionReport, Observer, ReportKind};
use pijs_hostcall::Ledger;
use pijs_llm::message::{Block, Message, StopReason};
use pijs_llm::provider::one_line;
use pijs_llm::update::UpdateKind;
use pijs_runtime::rules;
use pijs_session_store::{Body, Entry};
use serde_json::{Value, json};
use std::cell::OnceCell;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// The front end of the session.
pub(super) struct ScreenFrontEnd(pub(super) Screen);

impl FrontEnd for ScreenFrontEnd {
    fn event(&mut self, event: &AgentEvent<'_>) -> io::Result<()> {
        self.0.change(|view| show_event(view, event));
        Ok(())
    }

    fn unloading(&mut self) {
        self.0.change(|view| view.forget(None));
    }
}

/// Shows an event of the agent: runs, replies and tools here, all other events in [`show_notice`].
fn show_event(view: &mut View, event: &AgentEvent<'_>) {
    if let Some(line) = rules::event_line(event) {
        view.say(Style::Info, &line);
    }
    match event {
        AgentEvent::AgentStart => {
            view.run.begin();
        }
        AgentEvent::AgentEnd { .. } => {
            view.run.end();
            for line in view.conversation.repeated.counted() {
                view.say(Style::Warning, &line);
            }
        }
        AgentEvent::MessageStart { message: Message::Assistant(_) } => {
            view.run.retrying = None;
            view.conversation.transcript.begin_reply();
        }
        AgentEvent::MessageUpdate { update, .. } => {
            let (style, more) = match update.kind {
                UpdateKind::TextStart => (Style::Plain, ""),
                UpdateKind::TextDelta(more) => (Style::Plain, more),
                UpdateKind::ThinkingStart => (Style::Thinking, ""),
                UpdateKind::ThinkingDelta(more) => (Style::Thinking, more),
                _ => return,
            };
            view.conversation.transcript.extend_reply(update.index, style, more);
        }
        AgentEvent::MessageEnd { message } => end_message(view, message),
        AgentEvent::MessageDiscarded { .. } => {
            view.conversation.transcript.drop_reply();
            show_notice(view, event);
        }
        AgentEvent::ToolExecutionStart { tool_call_id, tool_name, args } => {
            view.conversation.transcript.call(tool_call_id, |call| {
                (call.name, call.args) = ((*tool_name).to_owned(), (*args).clone());
            });
        }
        AgentEvent::ToolExecutionUpdate { tool_call_id, partial_result, .. } => {
            view.conversation.transcript.call(tool_call_id, |call| call.result = Some((*partial_result).clone()));
        }
        AgentEvent::ToolExecutionEnd { tool_call_id, result, is_error, .. } => {
            view.conversation.transcript.call(tool_call_id, |call| {
                (call.result, call.is_done, call.is_error) = (Some((*result).clone()), true, *is_error);
            });
        }
        other => show_notice(view, other),
    }
}

/// Shows retries, compaction, and output of shell commands.
fn show_notice(view: &mut View, event: &AgentEvent<'_>) {
    match event {
        AgentEvent::AutoRetryStart { attempt, max_attempts, delay_ms, error_message, cause } => {
            let seconds = delay_ms.div_ceil(1000);
            let why = view.conversation.new_reasons(one_line(error_message), cause.map(one_line));
            let why = if why.is_empty() { String::new() } else { format!(": {}", why.join("; ")) };
            view.say(Style::Warning, &format!("retry {attempt} of {max_attempts} in {seconds} s{why}"));
            // Without a representable time there is no countdown.
            let until = Instant::now().checked_add(Duration::from_millis(*delay_ms));
            view.run.retrying = until.map(|until| Retrying { attempt: *attempt, max_attempts: *max_attempts, until });
        }
        AgentEvent::Notice { name: "auto_retry_end", payload } => {
            view.run.retrying = None;
            if payload["finalError"] == RETRY_CANCELLED {
                view.say(Style::Info, "the retry was cancelled");
            }
        }
        // Queued messages were sent, or handlers changed them.
        AgentEvent::Notice { name: "agent_settled", .. } => {
            view.run.retrying = None;
            view.conversation.queued.clear();
        }
        AgentEvent::Notice { name: "bash_execution_update", payload } => {
            if let (Some(number), Some(more)) = (payload["id"].as_u64(), payload["delta"].as_str()) {
                view.conversation.transcript.call(&shell_id(number), |call| print(call, more));
            }
        }
        AgentEvent::Notice { name: "compaction_start", .. } => view.say(Style::Info, "compacting the conversation"),
        _ => {}
    }
}

/// The agent's message for a cancelled retry delay.
const RETRY_CANCELLED: &str = "Retry cancelled";

fn end_message(view: &mut View, message: &Message) {
    match message {
        Message::User(user) => view.conversation.say_prompt(&user.content.text()),
        Message::Assistant(reply) => {
            view.conversation.transcript.end_reply(pieces(&reply.content));
            view.session.footer.spent.add(&reply.usage);
            match (&reply.error_message, reply.stop_reason) {
                (_, StopReason::Aborted) => {
                    view.run.retrying = None;
                    view.say(Style::Info, "interrupted");
                }
                (Some(error), _) => view.conversation.say_failure(one_line(error)),
                (None, _) => {}
            }
        }
        // Tools have separate blocks, and messages of extensions arrive as entries.
        _ => {}
    }
}

/// Returns the text of each content block by index.
fn pieces(content: &[Block]) -> Vec<(Style, String)> {
    let piece = |block: &Block| match block {
        Block::Thinking(thinking) => (Style::Thinking, thinking.thinking.clone()),
        other => (Style::Plain, other.as_text().unwrap_or_default().to_owned()),
    };
    content.iter().map(piece).collect()
}

/// Maximum number of entries of a session that are shown; not every entry has a block.
const MAX_SHOWN: usize = 4 * MAX_BLOCKS;

/// Shows the entries of an existing session.
pub(super) fn replay(view: &mut View, branch: &[Arc<Entry>]) {
    view.conversation.transcript.clear();
    view.conversation.scroll = 0;
    let mut kept = 0;
    // Older entries would be evicted at once.
    let branch = &branch[branch.len().saturating_sub(MAX_SHOWN)..];
    for entry in branch {
        match &entry.body {
            Body::Message { message: Message::ToolResult(result) } => {
                view.conversation.transcript.call(&result.tool_call_id, |call| {
                    call.result = Some(json!({"content": result.content, "details": result.details}));
                    (call.is_done, call.is_error) = (true, result.is_error);
                });
            }
            Body::Message { message: Message::BashExecution(run) } => {
                // Numbers of replayed commands count down from the maximum, so that they differ from those of this session.
                kept += 1;
                begin_bash(view, u64::MAX - kept, &run.command);
                let ending = BashEnding::new(run.cancelled, run.exit_code, run.full_output_path.as_deref());
                end_bash(view, u64::MAX - kept, &run.output, ending);
            }
            Body::Message { message } => {
                end_message(view, message);
                if let Message::User(user) = message {
                    let text = user.content.text();
                    let by = author_of_message(&text);
                    view.editor.history.remember(text, by);
                }
                if let Message::Assistant(reply) = message {
                    for made in reply.tool_calls() {
                        view.conversation.transcript.call(&made.id, |call| {
                            (call.name, call.args) = (made.name.clone(), made.arguments.clone());
                        });
                    }
                }
            }
            Body::Compaction { summary, .. } => view.say(Style::Info, &format!("[compaction]\n{summary}")),
            Body::BranchSummary { summary, .. } => view.say(Style::Info, &format!("[branch]\n{summary}")),
            _ => {
                let entry = entry.to_value();
                rules::entry_lines(&entry).into_iter().flatten().for_each(|line| view.say(Style::Info, &line));
                show_entry(view, &entry);
            }
        }
    }
}

/// Maximum number of bytes of output shown for a running command; the newest are shown.
const RUNNING_OUTPUT: usize = 64 * 1024;

fn shell_id(number: u64) -> String {
    format!("$ {number}")
}

/// Appends output to a running command.
fn print(call: &mut ToolBlock, more: &str) {
    let before = call.result.as_ref().and_then(|result| result["content"].as_str()).unwrap_or_default();
    let all = format!("{before}{more}");
    let kept = all.ceil_char_boundary(all.len().saturating_sub(RUNNING_OUTPUT));
    call.result = Some(json!({"content": &all[kept..]}));
}

/// Shows a shell command of the user that has started.
pub(super) fn begin_bash(view: &mut View, number: u64, command: &str) {
    view.conversation.transcript.call(&shell_id(number), |call| {
        (call.name, call.args) = (USER_COMMAND.to_owned(), command.into());
    });
}

/// Shows the end of a shell command with its output.
pub(super) fn end_bash(view: &mut View, number: u64, output: &str, ending: BashEnding) {
    view.conversation.transcript.call(&shell_id(number), |call| {
        call.result = Some(json!({"content": output}));
        (call.is_done, call.is_error, call.ending) = (true, ending.is_error, ending.said);
    });
}

/// The end of a shell command of the user.
#[derive(Debug)]
pub(super) struct BashEnding {
    /// Note below the output, for example that the command was cancelled, failed, or that its output was truncated.
    said: Option<String>,
    is_error: bool,
}

impl BashEnding {
    pub(super) fn new(cancelled: bool, code: Option<i64>, full_output: Option<&str>) -> Self {
        let end = match code {
            _ if cancelled => Some("(cancelled)".to_owned()),
            Some(code) if code != 0 => Some(format!("(exit {code})")),
            _ => None,
        };
        let is_error = end.is_some();
        let cut = full_output.map(|path| format!("Output truncated. Full output: {path}"));
        let parts: Vec<String> = end.into_iter().chain(cut).collect();
        Self { said: (!parts.is_empty()).then(|| parts.join(" ")), is_error }
    }

    /// Returns the end of a command that did not run.
    pub(super) fn failed(error: &str) -> Self {
        Self { said: Some(error.to_owned()), is_error: true }
    }
}

/// Shows an entry of an extension.
fn show_entry(view: &mut View, entry: &Value) {
    match entry["type"].as_str() {
        // Messages of rules show their own lines.
        Some("custom_message") if rules::entry_lines(entry).is_some() => {}
        Some("custom_message") if entry["display"] == Value::Bool(true) => {
            view.conversation.transcript.push(BlockContent::Message(pijs_runtime::renderers::custom_message(entry)));
        }
        Some("custom") => drop(view.conversation.transcript.push(BlockContent::Entry(entry.clone()))),
        Some("session_info") => view.session.set_name(entry["name"].as_str()),
        _ => {}
    }
}

/// Forwards the session state, and shows appended entries of extensions.
pub(super) struct EntryObserver {
    pub(super) screen: Screen,
    pub(super) state: Arc<dyn StateSink>,
    /// Number of entries that were seen. Those of an existing session are shown by [`replay`].
    pub(super) known: AtomicUsize,
}

impl StateSink for EntryObserver {
    fn set(&self, key: &str, value: Value) {
        if key == "contextUsage" {
            self.screen.change(|view| view.session.footer.read_window(&value));
        }
        if key == "thinkingLevel" || key == "model" {
            let part = |value: &Value, name: &str| value[name].as_str().unwrap_or_default().to_owned();
            self.screen.change(|view| match key {
                "model" => view.session.set_model(&model_name(&part(&value, "provider"), &part(&value, "id"))),
                _ => view.session.model.thinking = value.as_str().unwrap_or_default().to_owned(),
            });
        }
        self.state.set(key, value);
    }

    fn change_entries(&self, keep: usize, append: Vec<Value>) {
        let is_appended = keep > 0 && keep == self.known.load(Ordering::Relaxed);
        self.known.store(keep + append.len(), Ordering::Relaxed);
        if is_appended {
            self.screen.change(|view| append.iter().for_each(|entry| show_entry(view, entry)));
        }
        self.state.change_entries(keep, append);
    }
}

/// Shows reports of the host about extensions.
pub(super) struct ReportsOnScreen {
    pub(super) screen: Screen,
    /// Ledger with the secrets to redact, once the session exists.
    pub(super) ledger: Rc<OnceCell<Ledger>>,
}

impl Observer for ReportsOnScreen {
    fn report(&self, report: &ExtensionReport) {
        let text = report.to_string();
        let text = self.ledger.get().map_or_else(|| text.clone(), |ledger| ledger.redactor().text(&text).to_string());
        self.screen.change(|view| {
            if !view.conversation.repeated.shows(report, &text) {
                return;
            }
            let style = match &report.kind {
                ReportKind::Log(_) | ReportKind::Restarted => Style::Info,
                ReportKind::Warning { .. }
                | ReportKind::Conflict { .. }
                | ReportKind::LateVerdict
                | ReportKind::SlowVerdict { .. } => Style::Warning,
                _ => Style::Error,
            };
            if matches!(report.kind, ReportKind::Ended(_)) {
                view.forget(Some(&report.extension));
            }
            view.say(style, &pijs_runtime::indented(&text));
        });
    }
}
