//! The `bash` tool: runs a command line, kills it with all its descendants, and keeps the end of a long output.

use super::{ToolContext, ToolOutput, number, truncate};
use crate::system::{Shell, ShellOutcome};
use pijs_llm::message::Block;
use serde::Deserialize;
use serde_json::json;
use std::time::Duration;
use tokio::sync::mpsc;

/// Maximum number of bytes of output kept in memory. The newest are kept, because the end of a log tells how the command ended.
const MAX_OUTPUT: usize = 16 << 20;

/// Minimum time between two updates, as in pi: each update repeats the whole output so far.
const UPDATE_INTERVAL: Duration = Duration::from_millis(100);

/// Maximum timeout of a JavaScript timer: 2^31 - 1 milliseconds.
const MAX_TIMEOUT: Duration = Duration::from_millis(2_147_483_647);

#[derive(Deserialize)]
pub(super) struct Input {
    command: String,
    timeout: Option<f64>,
}

pub(super) async fn run(context: &mut ToolContext<'_>, input: Input) -> Result<ToolOutput, String> {
    // The first, empty update tells front ends that the command has started.
    (context.on_update)(json!({"content": []}));
    let timeout = input.timeout.map(time).transpose()?;
    let (sender, mut pieces) = mpsc::channel(16);
    let shell = Shell {
        command: input.command,
        cwd: context.cwd.to_owned(),
        variables: context.about.variables.clone(),
        timeout,
        limits: Default::default(),
        cancel: context.cancel.clone(),
        output: sender,
    };
    let running = context.system.shell(shell);
    tokio::pin!(running);
    let mut output = Vec::new();
    let (mut is_shown, mut pause) = (true, None);
    let end = loop {
        tokio::select! {
            biased;
            Some(piece) = pieces.recv() => {
                take(&mut output, &piece);
                is_shown = false;
            }
            () = async { pause.as_mut().expect("the pause is set").await }, if pause.is_some() => pause = None,
            end = &mut running => break end.map_err(|error| format!("Cannot run bash: {error}"))?,
        }
        if !is_shown && pause.is_none() {
            show(context, &output);
            is_shown = true;
            pause = Some(context.system.pause(UPDATE_INTERVAL));
        }
    };
    while let Ok(piece) = pieces.try_recv() {
        take(&mut output, &piece);
        is_shown = false;
    }
    if !is_shown {
        show(context, &output);
    }
    report(context, output, end, input.timeout).await
}

/// Validates the `timeout` argument, in seconds.
fn time(seconds: f64) -> Result<Duration, String> {
    if !seconds.is_finite() || seconds <= 0.0 {
        return Err("Invalid timeout: must be a finite number of seconds".to_owned());
    }
    let fits = Duration::try_from_secs_f64(seconds).ok().filter(|time| *time <= MAX_TIMEOUT);
    fits.ok_or_else(|| format!("Invalid timeout: maximum is {} seconds", MAX_TIMEOUT.as_secs_f64()))
}

fn take(output: &mut Vec<u8>, piece: &[u8]) {
    output.extend_from_slice(piece);
    if output.len() > 2 * MAX_OUTPUT {
        output.drain(..output.len() - MAX_OUTPUT);
    }
}

/// Sends the output so far as an update.
fn show(context: &mut ToolContext<'_>, output: &[u8]) {
    let shown = truncate::tail(&String::from_utf8_lossy(end_of(output)));
    (context.on_update)(json!({"content": [Block::text(shown.content)], "details": {}}));
}

/// Returns the end of the output, somewhat more than [`truncate::tail`] shows, so that the cost of an update does not grow with
/// the output.
fn end_of(output: &[u8]) -> &[u8] {
    let from = output.len().saturating_sub(2 * truncate::MAX_BYTES);
    let end = &output[from..];
    let is_inside = |byte: &u8| byte & 0xc0 == 0x80;
    // Skips the rest of a UTF-8 character that was cut.
    let cut = if from == 0 { 0 } else { end.iter().take(3).take_while(|byte| is_inside(byte)).count() };
    &end[cut..]
}

async fn report(
    context: &ToolContext<'_>,
    output: Vec<u8>,
    end: ShellOutcome,
    timeout: Option<f64>,
) -> Result<ToolOutput, String> {
    let text = String::from_utf8_lossy(&output).into_owned();
    let kept = truncate::tail(&text);
    let mut shown = kept.content.clone();
    let mut details = json!({});
    if kept.truncated {
        let name: String = context
            .tool_call_id
            .chars()
            .filter(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'))
            .take(64)
            .collect();
        let mut note = lines_shown(&kept, &text);
        if let Ok(path) = context.system.keep(format!("pi-bash-{name}.log"), output).await {
            note.push_str(&format!(". Full output: {}", path.display()));
            details["fullOutputPath"] = json!(path);
        }
        shown.push_str(&format!("\n\n[{note}]"));
        details["truncation"] = json!(kept);
    }
    let after = |status: String| if shown.is_empty() { status } else { format!("{shown}\n\n{status}") };
    match end {
        ShellOutcome::TimedOut => {
            return Err(after(format!("Command timed out after {} seconds", number(timeout.unwrap_or_default()))));
        }
        ShellOutcome::Cancelled => return Err(after("Command aborted".to_owned())),
        ShellOutcome::Exited(_) => {}
    }
    let shown = if shown.is_empty() { "(no output)".to_owned() } else { shown };
    match end {
        ShellOutcome::Exited(Some(0)) => Ok(ToolOutput::text(shown).with_details(details)),
        ShellOutcome::Exited(Some(code)) => Err(format!("{shown}\n\nCommand exited with code {code}")),
        _ => Err(format!("{shown}\n\nCommand terminated without an exit code")),
    }
}

/// Returns the note about the lines of the output that are shown.
fn lines_shown(kept: &truncate::Truncation, text: &str) -> String {
    let (from, total) = (kept.total_lines - kept.output_lines + 1, kept.total_lines);
    if kept.last_line_partial {
        let line = truncate::lines(text).last().map_or(0, |line| line.len());
        return format!(
            "Showing last {} of line {total} (line is {})",
            truncate::size(kept.output_bytes),
            truncate::size(line)
        );
    }
    let limit = match kept.truncated_by {
        Some(truncate::TruncationLimit::Bytes) => format!(" ({} limit)", truncate::size(truncate::MAX_BYTES)),
        _ => String::new(),
    };
    format!("Showing lines {from}-{total} of {total}{limit}")
}
