//! Shell commands of the user: `!command`, and `!!command`, which is hidden from the model.
//!
//! A `user_bash` handler may return the result, or with operations that run the command elsewhere. Otherwise the command runs
//! locally with the user's rights and without a permission prompt.

use crate::agent::Agent;
use crate::extensions::Event;
use crate::observer::{RunShell, ShellOutput};
use futures_util::FutureExt as _;
use pijs_host::Behind;
use pijs_hostcall::CommandLimits;
use pijs_llm::message::BashExecution;
use pijs_protocol::guard;
use pijs_tools::system::{Shell, ShellOutcome};
use pijs_tools::truncate;
use regex::Regex;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::LazyLock;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// Maximum number of bytes of output kept in memory; older output is dropped.
const MAX_OUTPUT: usize = 16 << 20;

/// The result of a command; pi's `BashResult`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BashResult {
    /// Output, truncated at the beginning.
    #[serde(default)]
    pub output: String,
    /// Exit code; `None` if the command was cancelled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i64>,
    /// Whether the user cancelled the command.
    #[serde(default)]
    pub cancelled: bool,
    /// Whether `output` was truncated.
    #[serde(default)]
    pub truncated: bool,
    /// Path of the file with the complete output, if `output` was truncated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub full_output_path: Option<String>,
}

impl Agent {
    /// Runs a command of the user and records it in the session.
    ///
    /// # Errors
    ///
    /// Fails with the exception of a handler, or when the shell cannot be started.
    pub async fn user_bash(
        &self,
        command: &str,
        exclude: Option<bool>,
        cancel: CancellationToken,
    ) -> Result<BashResult, String> {
        self.user_bash_as(None, command, exclude, CommandLimits::default(), cancel).await
    }

    /// Runs a command for a front end that numbers its commands: events about the output contain `id`. `limits` restrict a command
    /// that an extension wrote.
    pub async fn user_bash_as(
        &self,
        id: Option<&Value>,
        command: &str,
        exclude: Option<bool>,
        limits: CommandLimits,
        cancel: CancellationToken,
    ) -> Result<BashResult, String> {
        self.control.observe_act("bash", || json!({"id": id, "command": command, "exclude": exclude}));
        self.attend(async {
            let mut answer = Value::Null;
            let mut authors = BTreeSet::new();
            let is_told = id.is_none() || self.extensions.profile().tells_commands_of_programs();
            if is_told && self.extensions.has_handlers("user_bash") {
                let event = Event::new("user_bash")
                    .with("command", command)
                    .with("excludeFromContext", exclude.unwrap_or(false))
                    .with("cwd", self.options.cwd.display().to_string());
                let outcome = self.extensions.emit(event).await;
                if let Some(error) = outcome.thrown {
                    return Err(error);
                }
                answer = outcome.answer.unwrap_or_default();
                if guard!(AttributionAuthor) {
                    authors.extend(outcome.authors);
                }
            }
            let result = match answer.get("result").filter(|result| result.is_object()) {
                Some(result) => serde_json::from_value(result.clone())
                    .map_err(|error| format!("a user_bash handler returned an invalid result: {error}"))?,
                None => match answer.get("operations").and_then(|operations| operations.get("exec")) {
                    Some(exec) => self.elsewhere(id, command, exec, &answer, cancel).await?,
                    None => self.here(id, command, self.limits_of_session(command, limits).await?, cancel).await?,
                },
            };
            let run = BashExecution {
                command: command.to_owned(),
                output: result.output.clone(),
                exit_code: result.exit_code,
                cancelled: result.cancelled,
                truncated: result.truncated,
                full_output_path: result.full_output_path.clone(),
                timestamp: self.now(),
                exclude_from_context: exclude,
            };
            self.control.record_bash(authors, run).map_err(|error| error.to_string())?;
            self.publish_usage();
            Ok(result)
        })
        .await
    }

    /// Adds the restrictions of a session that an extension started: the command may come from that extension.
    async fn limits_of_session(&self, command: &str, limits: CommandLimits) -> Result<CommandLimits, String> {
        let Some(starter) = self.options.starter.as_ref().filter(|_| limits.view.is_open()) else { return Ok(limits) };
        let authority = self.extensions.vouch(starter, "bash", &json!({"command": command}), Behind::Starter).await?;
        Ok(authority.map_or(limits, |authority| authority.limits))
    }

    async fn here(
        &self,
        id: Option<&Value>,
        command: &str,
        limits: CommandLimits,
        cancel: CancellationToken,
    ) -> Result<BashResult, String> {
        let (sender, mut pieces) = mpsc::channel(16);
        let shell = Shell {
            command: command.to_owned(),
            cwd: self.options.cwd.clone(),
            variables: Default::default(),
            timeout: None,
            limits,
            cancel,
            output: sender,
        };
        let running = self.options.system.shell(shell);
        let mut output = String::new();
        let run: RunShell<'_> = Box::new(|mut output: ShellOutput<'_>| {
            async move {
                tokio::pin!(running);
                let mut decoder = Utf8Decoder::default();
                let end = loop {
                    tokio::select! {
                        biased;
                        Some(piece) = pieces.recv() => output(&decoder.push(&piece)),
                        end = &mut running => break end.map_err(|error| format!("Cannot run bash: {error}"))?,
                    }
                };
                while let Ok(piece) = pieces.try_recv() {
                    output(&decoder.push(&piece));
                }
                Ok(end)
            }
            .boxed_local()
        });
        let printed = Box::new(|piece: &str| self.printed(id, &mut output, piece));
        let end = self.observed_shell(command, printed, run).await?;
        let code = match end {
            ShellOutcome::Exited(code) => code.map(i64::from),
            ShellOutcome::TimedOut | ShellOutcome::Cancelled => None,
        };
        Ok(self.cut(output, code, end == ShellOutcome::Cancelled).await)
    }

    /// Runs a command with the operations of an extension, which reports output as it arrives.
    async fn elsewhere(
        &self,
        id: Option<&Value>,
        command: &str,
        exec: &Value,
        answer: &Value,
        cancel: CancellationToken,
    ) -> Result<BashResult, String> {
        let mut output = String::new();
        let stopped = cancel.clone();
        let ended = self
            .extensions
            .run_operation(exec, answer, command, &self.options.cwd.display().to_string(), cancel, &mut |piece| {
                self.printed(id, &mut output, piece);
            })
            .await?;
        let code = ended.get("exitCode").and_then(Value::as_i64);
        Ok(self.cut(output, code, stopped.is_cancelled()).await)
    }

    fn printed(&self, id: Option<&Value>, output: &mut String, piece: &str) {
        let delta = printable(piece);
        let mut payload = json!({"delta": delta});
        if let Some(id) = id {
            payload["id"] = id.clone();
        }
        self.keep(self.emit_to_front_end(&crate::events::AgentEvent::Notice {
            name: "bash_execution_update",
            payload: &payload,
        }));
        output.push_str(&delta);
        if output.len() > 2 * MAX_OUTPUT {
            output.drain(..output.ceil_char_boundary(output.len() - MAX_OUTPUT));
        }
    }

    async fn cut(&self, output: String, exit_code: Option<i64>, cancelled: bool) -> BashResult {
        let kept = truncate::tail(&output);
        let mut full_output_path = None;
        if kept.truncated {
            let name = format!("pi-bash-{}.log", self.options.ambient.uuid_v7());
            full_output_path = self.store_output(&name, output).await.map(|path| path.display().to_string());
        }
        BashResult { output: kept.content, exit_code, cancelled, truncated: kept.truncated, full_output_path }
    }
}

/// Decodes UTF-8 that arrives in pieces; a piece may end inside a character.
#[derive(Debug, Default)]
struct Utf8Decoder {
    /// Bytes of an incomplete character at the end of the last piece.
    rest: Vec<u8>,
}

impl Utf8Decoder {
    fn push(&mut self, piece: &[u8]) -> String {
        self.rest.extend_from_slice(piece);
        let bytes = std::mem::take(&mut self.rest);
        let mut text = String::with_capacity(bytes.len());
        let mut chunks = bytes.utf8_chunks().peekable();
        while let Some(chunk) = chunks.next() {
            text.push_str(chunk.valid());
            let is_last = chunks.peek().is_none();
            // An invalid sequence of any length becomes one replacement character.
            if is_last && is_begun(chunk.invalid()) {
                self.rest = chunk.invalid().to_vec();
            } else if !chunk.invalid().is_empty() {
                text.push(char::REPLACEMENT_CHARACTER);
            }
        }
        text
    }
}

/// Returns whether these bytes are an incomplete character.
fn is_begun(bytes: &[u8]) -> bool {
    !bytes.is_empty() && std::str::from_utf8(bytes).is_err_and(|error| error.error_len().is_none())
}

/// Matches escape sequences as pi does: titles and links up to their end, colours and cursor movements.
static SEQUENCES: LazyLock<Regex> = LazyLock::new(|| {
    let end = r"(?:\x07|\x1B\x5C|\u{9C})";
    let title = format!(r"\x1B\](?s:.)*?{end}");
    let control = r"[\x1B\u{9B}][\[\]()#;?]*(?:[0-9]{1,4}(?:[;:][0-9]{0,4})*)?[0-9A-PR-TZcf-nq-uy=><~]";
    Regex::new(&format!("{title}|{control}")).expect("a constant pattern")
});

/// Returns the output for users and the model: without escape sequences and control characters, with LF line ends. As in pi, each
/// piece is processed separately.
fn printable(piece: &str) -> String {
    let text = match piece.contains(['\x1b', '\u{9b}']) {
        true => SEQUENCES.replace_all(piece, ""),
        false => Cow::Borrowed(piece),
    };
    let is_kept = |character: &char| match character {
        '\t' | '\n' => true,
        '\0'..='\x1f' | '\u{fff9}'..='\u{fffb}' => false,
        _ => true,
    };
    text.chars().filter(is_kept).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The output of `bash` over RPC equals the captured output of the real pi.
    #[test]
    fn output_has_no_escape_sequences() {
        for (printed, shown) in [
            ("\x1b[31mred\x1b[0m end\n", "red end\n"),
            ("a\rb\r\nc\x07d\x08e\tf\n", "ab\ncde\tf\n"),
            ("\x1b]0;title\x07x\x1b]8;;http://a\x1b\\link\x1b]8;;\x1b\\ y\n", "xlink y\n"),
            ("\0nul\x7f\u{85}\u{9b}31m\n", "nul\x7f\u{85}\n"),
            ("\x1b(B\x1b=x\x1bMz\x1bP1q\x1b\\w", "xz1q\\w"),
            ("\u{2028}\u{202e} rtl\u{fff9}\n", "\u{2028}\u{202e} rtl\n"),
            ("x\x1b", "x"),
            ("[0my", "[0my"),
        ] {
            assert_eq!(printable(printed), shown, "{printed:?}");
        }
    }

    #[test]
    fn a_split_character_is_joined() {
        let mut decoder = Utf8Decoder::default();
        let pieces: [&[u8]; 5] = [b"a\xf0\x9f", b"\x98\x80b\xff", b"\xff c\xe2", b"\x82\xac", b"\xe2x"];
        let text: Vec<String> = pieces.iter().map(|piece| decoder.push(piece)).collect();
        assert_eq!(text, ["a", "\u{1f600}b\u{fffd}", "\u{fffd} c", "\u{20ac}", "\u{fffd}x"]);
    }
}
