//! `bash`: a command line, its output cut at the beginning, killed with all it started.

use super::{ToolContext, ToolOutput, truncate};
use crate::message::Block;
use crate::system::{Shell, ShellEnd};
use serde::Deserialize;
use serde_json::json;
use std::time::Duration;
use tokio::sync::mpsc;

/// Output kept in memory; of more, the end.
const KEPT: usize = 16 << 20;

#[derive(Deserialize)]
pub(super) struct Input {
    command: String,
    timeout: Option<f64>,
}

pub(super) async fn run(context: &mut ToolContext<'_>, input: Input) -> Result<ToolOutput, String> {
    let timeout = match input.timeout {
        Some(seconds) if seconds > 0.0 => Some(
            Duration::try_from_secs_f64(seconds).map_err(|_| format!("a timeout of {seconds} seconds is too long"))?,
        ),
        _ => None,
    };
    let (sender, mut pieces) = mpsc::channel(16);
    let shell = Shell {
        command: input.command,
        cwd: context.cwd.to_owned(),
        timeout,
        cancel: context.cancel.clone(),
        output: sender,
    };
    let running = context.system.shell(shell);
    tokio::pin!(running);
    let mut output = Vec::new();
    let end = loop {
        tokio::select! {
            biased;
            Some(piece) = pieces.recv() => {
                take(&mut output, &piece);
                let shown = truncate::tail(&String::from_utf8_lossy(&output));
                (context.on_update)(json!({"content": [Block::text(shown.content)], "details": {}}));
            }
            end = &mut running => break end.map_err(|error| format!("Cannot run bash: {error}"))?,
        }
    };
    while let Ok(piece) = pieces.try_recv() {
        take(&mut output, &piece);
    }
    report(context, output, end, input.timeout).await
}

fn take(output: &mut Vec<u8>, piece: &[u8]) {
    output.extend_from_slice(piece);
    if output.len() > 2 * KEPT {
        output.drain(..output.len() - KEPT);
    }
}

async fn report(
    context: &ToolContext<'_>,
    output: Vec<u8>,
    end: ShellEnd,
    timeout: Option<f64>,
) -> Result<ToolOutput, String> {
    let text = String::from_utf8_lossy(&output).into_owned();
    let kept = truncate::tail(&text);
    let mut shown = if kept.content.is_empty() { "(no output)".to_owned() } else { kept.content.clone() };
    let mut details = json!({});
    if kept.truncated {
        let name: String = context
            .tool_call_id
            .chars()
            .filter(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'))
            .take(64)
            .collect();
        let from = kept.total_lines - kept.output_lines + 1;
        let mut note = format!("Showing lines {from}-{} of {}", kept.total_lines, kept.total_lines);
        if let Ok(path) = context.system.keep(format!("pi-bash-{name}.log"), output).await {
            note.push_str(&format!(". Full output: {}", path.display()));
            details["fullOutputPath"] = json!(path);
        }
        shown.push_str(&format!("\n\n[{note}]"));
        details["truncation"] = json!(kept);
    }
    match end {
        ShellEnd::Exited(Some(0)) => Ok(ToolOutput::text(shown).with_details(details)),
        ShellEnd::Exited(Some(code)) => Err(format!("{shown}\n\nCommand exited with code {code}")),
        ShellEnd::Exited(None) => Err(format!("{shown}\n\nCommand was ended by a signal")),
        ShellEnd::TimedOut => {
            Err(format!("{shown}\n\nCommand timed out after {} seconds", timeout.unwrap_or_default()))
        }
        ShellEnd::Cancelled => Err(format!("{shown}\n\nCommand aborted")),
    }
}
