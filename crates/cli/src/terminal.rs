//! The interface to a user at a terminal: permission prompts and dialogs of extensions, line by line on stderr.

use crate::output::{clean, indented, option_text, stderr};
use pijs_agent::FrontEnd;
use pijs_connectors::ports::{PortAnswer, UiCall, UiOp, UiPort, unsupported};
use pijs_hostcall::{Answer, BoxFuture, Caller, CancelToken, Prompter, Question};
use pijs_protocol::{ExtensionId, HostcallError, guard};
use pijs_runtime::{Environment, Interface};
use pijs_tui::answer_choices::{AnswerChoice, ShownPart, choices, keys};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{BufRead, Write};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Prompts on stderr and reads answers from stdin, one prompt at a time. The end of input means *no*.
#[derive(Clone, Default)]
pub(crate) struct Terminal {
    one_at_a_time: Arc<Mutex<()>>,
    open: Arc<Mutex<OpenDialogs>>,
}

/// Returns the interface of a run that answers one prompt: dialogs go to the terminal if there is one.
pub(crate) fn at_once(environment: &Environment, is_text: bool, front_end: Box<dyn FrontEnd>) -> Interface {
    let can_ask = environment.stdin_is_terminal && environment.stderr_is_terminal;
    let terminal = Terminal::default();
    Interface {
        mode: if is_text { "print" } else { "json" },
        has_ui: is_text && can_ask,
        front_end,
        ui: (is_text && can_ask).then(|| Arc::new(terminal.clone()) as _),
        prompter: can_ask.then(|| Arc::new(terminal) as _),
        ..Interface::default()
    }
}

#[derive(Default)]
struct OpenDialogs {
    last: u64,
    /// Open dialogs that are not awaited yet, by extension and number.
    dialogs: BTreeMap<(ExtensionId, u64), UiCall>,
}

impl Terminal {
    /// Shows `lines` and reads one line; `None` at the end of input.
    pub(crate) fn ask(&self, lines: &str) -> Option<String> {
        let _turn = self.one_at_a_time.lock().unwrap_or_else(PoisonError::into_inner);
        let mut out = std::io::stderr().lock();
        write!(out, "{}", clean(lines)).and_then(|()| out.flush()).ok()?;
        let mut line = String::new();
        match std::io::stdin().lock().read_line(&mut line) {
            Ok(0) | Err(_) => None,
            Ok(_) => Some(line.trim().to_owned()),
        }
    }

    async fn ask_off_thread(self, lines: String) -> Option<String> {
        tokio::task::spawn_blocking(move || self.ask(&lines)).await.ok().flatten()
    }
}

/// An answer that arrives within this time was typed before the prompt could be read.
const DEAD_TIME: Duration = Duration::from_millis(300);
/// Maximum number of discarded lines before a prompt counts as unanswered.
const MAX_HASTY: usize = 64;

impl Terminal {
    /// Prompts for a decision that grants power. A line that was typed ahead is discarded, and the prompt is repeated.
    pub(crate) fn answer(&self, question: &str) -> Option<String> {
        let mut shown = question.to_owned();
        for _ in 0..MAX_HASTY {
            let asked = Instant::now();
            let line = self.ask(&shown)?;
            if asked.elapsed() >= DEAD_TIME || !guard!(PromptDeadTime) {
                return Some(line.to_lowercase());
            }
            shown = "that line was typed before the prompt appeared; answer again: ".to_owned();
        }
        None
    }
}

/// Frames a prompt of pi. Output of extensions is indented, so it cannot imitate the frame.
fn framed(question: &Question) -> String {
    let mut text = format!("\n== pi asks: {} wants to {}\n", question.who(), question.what);
    if !question.subject.is_empty() {
        text.push_str(&format!("==   {}\n", question.subject));
    }
    for warning in &question.warnings {
        text.push_str(&format!("== note: {warning}\n"));
    }
    if !question.package.is_empty() {
        text.push_str("== all that it requests:\n");
        question.package.iter().for_each(|line| text.push_str(&format!("==   - {line}\n")));
    }
    let labels: Vec<String> = choices(question, ShownPart::Whole).iter().map(AnswerChoice::label).collect();
    text.push_str(&format!("== allow? {}; Enter is no: ", labels.join(", ")));
    text
}

/// Maximum number of invalid lines before a prompt counts as answered with *no*.
const MAX_UNKNOWN: usize = 3;

/// Prompts until a line is one of the answers: its key, or its word.
fn read_answer(terminal: &Terminal, question: &Question) -> Answer {
    let offered = choices(question, ShownPart::Whole);
    let mut text = framed(question);
    for _ in 0..MAX_UNKNOWN {
        let Some(line) = terminal.answer(&text) else { return Answer::NoPerson };
        let key = match line.as_str() {
            "yes" => "y",
            "same" => "s",
            "always" => "w",
            "all" => "a",
            "" | "no" => "n",
            "never" => "v",
            "mute" => "m",
            key => key,
        };
        if let Some(choice) = offered.iter().find(|choice| choice.key == key) {
            return choice.answer;
        }
        // The key of an answer to another prompt is not consent to this one.
        if matches!(key, "w" | "a" | "p" | "k" | "m") {
            return Answer::Deny;
        }
        text = format!("== {}\n== allow? ", keys(&offered));
    }
    Answer::Deny
}

impl Prompter for Terminal {
    fn ask(&self, question: Question) -> BoxFuture<'static, Answer> {
        let terminal = self.clone();
        Box::pin(async move {
            let answer = tokio::task::spawn_blocking(move || read_answer(&terminal, &question)).await;
            answer.unwrap_or(Answer::NoPerson)
        })
    }
}

impl UiPort for Terminal {
    fn call(&self, caller: &Caller, call: UiCall, _cancel: CancelToken) -> PortAnswer {
        let call = match (call.op, call.params.get("dialog").and_then(Value::as_u64)) {
            (UiOp::Answer, Some(number)) => {
                let own = (caller.extension().clone(), number);
                let opened = self.open.lock().unwrap_or_else(PoisonError::into_inner).dialogs.remove(&own);
                let Some(opened) = opened else { return Box::pin(std::future::ready(Ok(json!({})))) };
                opened
            }
            _ => call,
        };
        let who = caller.extension().to_string();
        let text = |key: &str| call.params.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        let terminal = self.clone();
        match call.op {
            UiOp::Select => {
                let options = call.params.get("options").and_then(Value::as_array).cloned().unwrap_or_default();
                let list: String = options
                    .iter()
                    .enumerate()
                    .map(|(at, option)| format!("  {}. {}\n", at + 1, indented(&option_text(option))))
                    .collect();
                let question = format!("\n{who}: {}\n{list}number, or empty to cancel: ", indented(&text("title")));
                Box::pin(async move {
                    let line = terminal.ask_off_thread(question).await.unwrap_or_default();
                    let chosen = line.parse::<usize>().ok().and_then(|number| options.get(number.checked_sub(1)?));
                    Ok(chosen.map_or_else(|| json!({}), |chosen| json!({ "value": chosen })))
                })
            }
            UiOp::Confirm => {
                let (title, message) = (indented(&text("title")), indented(&text("message")));
                let question = format!("\n{who}: {title}\n  {message}\n[y/N]: ");
                Box::pin(async move {
                    let line = terminal.ask_off_thread(question).await.unwrap_or_default();
                    Ok(json!({ "value": matches!(line.to_lowercase().as_str(), "y" | "yes") }))
                })
            }
            UiOp::Input => {
                let (title, hint) = (indented(&text("title")), indented(&text("placeholder")));
                let question = format!("\n{who}: {title}\n  {hint}> ");
                Box::pin(async move {
                    let line = terminal.ask_off_thread(question).await.filter(|line| !line.is_empty());
                    Ok(line.map_or_else(|| json!({}), |line| json!({ "value": line })))
                })
            }
            op => Box::pin(std::future::ready(notify(&who, op, &call))),
        }
    }

    fn call_sync(&self, caller: &Caller, call: UiCall) -> Result<Value, HostcallError> {
        if matches!(call.op, UiOp::Select | UiOp::Confirm | UiOp::Input) {
            if call.params.contains_key("aborted") {
                return Ok(json!({}));
            }
            let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
            open.last += 1;
            let number = open.last;
            open.dialogs.insert((caller.extension().clone(), number), call);
            return Ok(json!({ "dialog": number }));
        }
        notify(caller.extension().as_str(), call.op, &call)
    }
}

/// Handles operations that do not need an answer.
fn notify(who: &str, op: UiOp, call: &UiCall) -> Result<Value, HostcallError> {
    match op {
        UiOp::Notify | UiOp::SetStatus => {
            let shown = call.params.get("message").or_else(|| call.params.get("text")).and_then(Value::as_str);
            if let Some(shown) = shown {
                stderr(&format!("{}: {}", clean(who), indented(&clean(shown))));
            }
            Ok(json!({}))
        }
        other => Err(unsupported("ui", other.as_str(), "not available with -p; run pi without it")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pijs_hostcall::Profile;

    #[tokio::test]
    async fn an_answer_is_asked_for_by_whoever_opened_the_dialog() {
        let terminal = Terminal::default();
        let [own, other] = ["path:/own", "path:/other"].map(|id| Caller::new(Arc::new(Profile::new(id))));
        let call = |op: UiOp, params: Value| UiCall { op, params: params.as_object().cloned().unwrap_or_default() };
        let opened = terminal.call_sync(&own, call(UiOp::Input, json!({"title": "password"}))).expect("it is opened");
        let answer = terminal.call(&other, call(UiOp::Answer, opened), CancelToken::new()).await;
        assert_eq!(answer.expect("no error"), json!({}), "the person is asked nothing");
        assert_eq!(terminal.open.lock().unwrap().dialogs.len(), 1);
    }
}
