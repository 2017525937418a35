//! Runs `pi` from its arguments: reports unsupported options, chooses the front end, and prints the reply of `pi -p`.

use crate::args::{ExtensionFlag, Mode, RunArgs};
use crate::export;
use crate::output::{self, Json, clean, reply, stderr};
use crate::prompts::{self, Prompts, answers_one};
use crate::session::{assemble, list_models};
use crate::terminal::at_once;
use pijs_agent::{AgentError, AgentEvent, Ending, FrontEnd, InputSource, JsonFrontEnd, Outcome};
use pijs_llm::message::{Block, Message, StopReason};
use pijs_llm::provider::{ErrorKind, Model, one_line};
use pijs_protocol::guard;
use pijs_runtime::Environment;
use pijs_runtime::models;
use pijs_runtime::shutdown_signals::{SHUTDOWN_GRACE, ShutdownSignals};
use pijs_runtime::{AgentSession, Isolation, Notices, WIND_DOWN};
use pijs_runtime::{Result, UserError};
use pijs_tui::TuiOptions;
use std::cell::Cell;
use std::ops::Deref;
use std::path::Path;

/// Runs `pi ...` in the requested mode.
pub(crate) async fn run(environment: &Environment, args: RunArgs, flags: Vec<ExtensionFlag>) -> Result<()> {
    check_usage(environment, &args)?;
    if let Some(file) = &args.export {
        return export::write(environment, file, &args.messages);
    }
    if args.list_models.is_some() {
        return list_models(environment, args, flags).await;
    }
    if args.mode == Mode::Rpc {
        return crate::rpc::serve(environment, args, flags).await;
    }
    if !answers_one(environment, &args) {
        return run_terminal(environment, args, flags).await;
    }
    let prompts = prompts::piped(environment, &args).await?;
    let is_text = args.mode != Mode::Json;
    let front_end: Box<dyn FrontEnd> =
        if is_text { Box::new(Retries::default()) } else { Box::new(JsonFrontEnd::new(Json(std::io::stdout()))) };
    let interface = at_once(environment, is_text, front_end);
    let session = Answering(assemble(environment, &args, flags, interface, None).await?);
    let control = session.agent.control().clone();
    let host = session.host.clone();
    let mut stops = ShutdownSignals::listen(|| {})?;
    let is_interrupted = Cell::new(false);
    let interrupted = async {
        stops.next().await;
        is_interrupted.set(true);
        control.abort();
        // The run winds down, regardless of what extensions are waiting for; a second signal ends it at once.
        if guard!(ShutdownPrint) {
            host.limit_waits_after_abort();
            let _ = tokio::time::timeout(WIND_DOWN + SHUTDOWN_GRACE, stops.next()).await;
        } else {
            stops.next().await;
        }
    };
    let left = async {
        let code = control.left().await;
        is_interrupted.set(true);
        control.abort();
        // The run winds down here as well, and then the session ends.
        tokio::time::sleep(WIND_DOWN + SHUTDOWN_GRACE).await;
        UserError::left(code)
    };
    let result = tokio::select! {
        result = host.run(session.run(prompts, is_text, &is_interrupted)) => match control.exit_code() {
            Some(code) => UserError::left(code),
            None => result,
        },
        () = interrupted => Err(UserError::interrupted()),
        result = left => result,
    };
    session.finish();
    if let Some(tape) = &args.tape {
        let extensions: Vec<String> = host.packages().iter().map(|package| package.id().to_string()).collect();
        tell_recorded(tape, &extensions);
    }
    result
}

/// Writes the size of a tape and the extensions on it to stderr: each of them makes the tape larger.
fn tell_recorded(tape: &Path, extensions: &[String]) {
    const MAX_NAMED: usize = 8;
    let Ok(file) = std::fs::metadata(tape) else { return };
    let size = match file.len().div_ceil(1024) {
        size if size < 10_000 => format!("{size} KB"),
        size => format!("{} MB", size / 1024),
    };
    let mut named: Vec<&str> = extensions.iter().take(MAX_NAMED).map(String::as_str).collect();
    let more = format!("{} more", extensions.len().saturating_sub(MAX_NAMED));
    if extensions.len() > MAX_NAMED {
        named.push(&more);
    }
    let named = if named.is_empty() { "none".to_owned() } else { named.join(", ") };
    stderr(&clean(&format!("recorded {} ({size}); extensions: {named}", tape.display())));
}

/// Runs the terminal mode until the user leaves.
async fn run_terminal(environment: &Environment, args: RunArgs, flags: Vec<ExtensionFlag>) -> Result<()> {
    let options = TuiOptions {
        prompts: prompts::typed(environment, &args, String::new())?.prompts,
        theme: args.use_theme.clone(),
        is_verbose: args.verbose,
        resumes: args.session.resume,
        session_dir: args.session.session_dir.clone(),
    };
    let divert = |notices: Option<Notices>| output::divert(notices);
    let assemble = |interface, resumed: Option<String>| async move {
        let mut args = args;
        args.session.session = resumed.or(args.session.session);
        assemble(environment, &args, flags, interface, None).await
    };
    pijs_tui::serve(environment, options, divert, assemble).await
}

/// Reports retries and firings of rules on stderr, one line each; other events are not printed.
#[derive(Default)]
struct Retries {
    /// The reason in the last line, so that it is not repeated.
    reason: String,
}

impl FrontEnd for Retries {
    fn event(&mut self, event: &AgentEvent<'_>) -> std::io::Result<()> {
        if let Some(line) = pijs_runtime::rules::event_line(event) {
            stderr(&line);
        }
        if let AgentEvent::AutoRetryStart { attempt, max_attempts, delay_ms, error_message, cause } = event {
            let (seconds, error) = (delay_ms.div_ceil(1000), one_line(error_message));
            let cause = cause.map(|cause| format!(" ({})", one_line(cause))).unwrap_or_default();
            let reason = format!("{error}{cause}");
            let shown = if reason == self.reason { "the same error" } else { &reason };
            stderr(&clean(&format!("retry {attempt} of {max_attempts} in {seconds} s: {shown}")));
            self.reason = reason;
        }
        Ok(())
    }
}

fn check_usage(environment: &Environment, args: &RunArgs) -> Result<()> {
    let one = answers_one(environment, args);
    if args.mode == Mode::Rpc && args.files().next().is_some() {
        return Err(UserError::usage("@file arguments are not supported in RPC mode")
            .help("read the file yourself and send its text in a `prompt` command"));
    }
    if args.session.resume && (one || args.mode == Mode::Rpc) {
        return Err(UserError::usage("--resume needs a terminal, to choose a session")
            .help("continue the latest session with --continue, or another one with --session FILE|ID"));
    }
    if args.tui_mode.as_ref().is_some_and(|mode| mode != "fullscreen") {
        return Err(UserError::usage("--tui-mode: only fullscreen is supported").help("leave the option out"));
    }
    if !args.print && args.mode == Mode::Json && args.messages.is_empty() && environment.stdin_is_terminal {
        return Err(UserError::usage("--mode json needs a prompt").help("pass one with: pi -p 'PROMPT' --mode json"));
    }
    if args.isolation == Isolation::Process && !cfg!(target_os = "linux") {
        return Err(
            UserError::usage("--isolation process needs Linux").help("use --isolation thread, the default here")
        );
    }
    Ok(())
}

/// A session that answers the prompts of the command line and then ends.
pub(crate) struct Answering(pub(crate) AgentSession);

impl Deref for Answering {
    type Target = AgentSession;

    fn deref(&self) -> &AgentSession {
        &self.0
    }
}

impl Answering {
    /// Starts the session, answers the prompts, and shuts the session down.
    pub(crate) async fn run(&self, prompts: Prompts, is_text: bool, is_interrupted: &Cell<bool>) -> Result<()> {
        let outcome = self
            .agent
            .attend(async {
                self.start().await?;
                let outcome = self.send_all(prompts, is_interrupted).await;
                if is_text {
                    self.show_last();
                }
                self.keep_tools();
                self.agent.shutdown("quit").await;
                outcome
            })
            .await;
        // Completes pending effects such as a log line or an event on the bus.
        let _ = tokio::time::timeout(WIND_DOWN, self.host.quiet()).await;
        for (caller, refusal) in self.host.report_refusals() {
            stderr(&clean(&format!("warning: {caller}: {refusal}")));
        }
        match outcome? {
            // A signal arrived, or an extension ended the program.
            Some(Outcome { ending: Ending::Aborted | Ending::Failed(_), .. }) if is_interrupted.get() => {
                Err(UserError::interrupted())
            }
            Some(outcome) if is_text => judge(outcome, self.agent.control().model()),
            Some(outcome) => judge_events(outcome),
            None => Ok(()),
        }
    }

    /// Sends the prompts one after the other. The result of the last one counts; after an interruption no further prompt is sent.
    async fn send_all(&self, prompts: Prompts, is_interrupted: &Cell<bool>) -> Result<Option<Outcome>, AgentError> {
        let mut last = None;
        for prompt in prompts.prompts {
            if is_interrupted.get() || self.agent.control().exit_code().is_some() {
                break;
            }
            if let Some(Outcome { ending: Ending::CommandFailed(error), .. }) = &last {
                stderr(&clean(&error.to_string()));
            }
            last = Some(self.agent.submit(prompt, InputSource::Interactive).await?);
        }
        Ok(last)
    }

    /// Prints the text of the last reply on stdout, if it is complete and no later message exists.
    fn show_last(&self) {
        let Ok(messages) = self.agent.messages() else { return };
        let last = messages.iter().rev().find(|message| !matches!(message, Message::Custom(_)));
        let Some(Message::Assistant(last)) = last else { return };
        if matches!(last.stop_reason, StopReason::Error | StopReason::Aborted) {
            return;
        }
        last.content.iter().filter_map(Block::as_text).for_each(reply);
    }
}

/// Returns the result of a run whose events were written. A reader of the events knows how a reply ended, so the exit code is 0,
/// as in pi. Only a failed command has no event.
fn judge_events(outcome: Outcome) -> Result<()> {
    match outcome.ending {
        Ending::Failed(_) | Ending::Aborted => Ok(()),
        _ => judge(outcome, None),
    }
}

/// Converts the outcome of a run to a result; `model` is the current model.
fn judge(outcome: Outcome, model: Option<Model>) -> Result<()> {
    match outcome.ending {
        Ending::Done | Ending::Handled => Ok(()),
        Ending::Stopped { extension } => {
            stderr(&format!("{}: stopped the reply", clean(&extension)));
            Ok(())
        }
        Ending::CommandFailed(error) => Err(UserError::failed(clean(&error.to_string()))),
        // An extension has aborted the run; an abort by a signal is handled elsewhere.
        Ending::Aborted => {
            let said = outcome.message.and_then(|message| message.error_message);
            Err(UserError::failed(clean(said.as_deref().unwrap_or("Request was aborted"))))
        }
        Ending::Failed(error) => {
            let help = error.help().map(|help| format!(" ({help})")).unwrap_or_default();
            let failure = UserError::failed(clean(&format!("{}{help}", one_line(error.message()))));
            Err(match error.kind() {
                ErrorKind::Auth => {
                    failure.help(format!("check {}, and --base-url", models::places_of_key(model.as_ref())))
                }
                _ => failure,
            })
        }
        Ending::TooManyTurns(turns) => {
            Err(UserError::failed(format!("the model was still calling tools after {turns} turns")))
        }
    }
}
