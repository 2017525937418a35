//! Shell commands of the person: `!command`, and `!!command`, which the model does not see.
//!
//! A handler of `user_bash` may answer with the result, or with operations of its own that run the
//! command somewhere else. Otherwise it runs here, as the person's own command: nothing asks for it.

use crate::agent::Agent;
use crate::extensions::Event;
use crate::message::BashExecution;
use crate::system::{Shell, ShellEnd};
use crate::tools::truncate;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// Output kept of a command; of more, the end.
const KEPT: usize = 16 << 20;

/// What a command came to; pi's `BashResult`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BashResult {
    /// What it printed, cut at the beginning.
    #[serde(default)]
    pub output: String,
    /// Absent when it was stopped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i64>,
    /// Whether the person stopped it.
    #[serde(default)]
    pub cancelled: bool,
    /// Whether `output` was cut.
    #[serde(default)]
    pub truncated: bool,
    /// Where all of the output is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub full_output_path: Option<String>,
}

impl Agent {
    /// Runs a command of the person and writes it down.
    ///
    /// # Errors
    ///
    /// A sentence: what a handler threw, or why the shell does not start.
    pub async fn user_bash(
        &self,
        command: &str,
        exclude: Option<bool>,
        cancel: CancellationToken,
    ) -> Result<BashResult, String> {
        self.user_bash_as(None, command, exclude, cancel).await
    }

    /// The same for a front end that numbers its commands: what is printed carries `id`.
    pub async fn user_bash_as(
        &self,
        id: Option<&Value>,
        command: &str,
        exclude: Option<bool>,
        cancel: CancellationToken,
    ) -> Result<BashResult, String> {
        self.attend(async {
            let mut answer = Value::Null;
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
            }
            let result = match answer.get("result").filter(|result| result.is_object()) {
                Some(result) => serde_json::from_value(result.clone())
                    .map_err(|error| format!("a handler of user_bash gave a result that is none: {error}"))?,
                None => match answer.get("operations").and_then(|operations| operations.get("exec")) {
                    Some(exec) => self.elsewhere(id, command, exec, &answer, cancel).await?,
                    None => self.here(id, command, cancel).await?,
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
            self.control.record_bash(run).map_err(|error| error.to_string())?;
            self.publish_usage();
            Ok(result)
        })
        .await
    }

    async fn here(&self, id: Option<&Value>, command: &str, cancel: CancellationToken) -> Result<BashResult, String> {
        let (sender, mut pieces) = mpsc::channel(16);
        let shell = Shell {
            command: command.to_owned(),
            cwd: self.options.cwd.clone(),
            variables: Default::default(),
            timeout: None,
            cancel,
            output: sender,
        };
        let running = self.options.system.shell(shell);
        tokio::pin!(running);
        let mut output = Vec::new();
        let end = loop {
            tokio::select! {
                biased;
                Some(piece) = pieces.recv() => self.printed(id, &mut output, &piece),
                end = &mut running => break end.map_err(|error| format!("Cannot run bash: {error}"))?,
            }
        };
        while let Ok(piece) = pieces.try_recv() {
            self.printed(id, &mut output, &piece);
        }
        let code = match end {
            ShellEnd::Exited(code) => code.map(i64::from),
            ShellEnd::TimedOut | ShellEnd::Cancelled => None,
        };
        Ok(self.cut(output, code, end == ShellEnd::Cancelled).await)
    }

    /// By the operations of an extension; what it prints arrives on the way.
    async fn elsewhere(
        &self,
        id: Option<&Value>,
        command: &str,
        exec: &Value,
        answer: &Value,
        cancel: CancellationToken,
    ) -> Result<BashResult, String> {
        let mut output = Vec::new();
        let stopped = cancel.clone();
        let ended = self
            .extensions
            .run_operation(exec, answer, command, &self.options.cwd.display().to_string(), cancel, &mut |piece| {
                self.printed(id, &mut output, piece.as_bytes());
            })
            .await?;
        let code = ended.get("exitCode").and_then(Value::as_i64);
        Ok(self.cut(output, code, stopped.is_cancelled()).await)
    }

    fn printed(&self, id: Option<&Value>, output: &mut Vec<u8>, piece: &[u8]) {
        let delta = String::from_utf8_lossy(piece).into_owned();
        let mut payload = json!({"delta": delta});
        if let Some(id) = id {
            payload["id"] = id.clone();
        }
        self.keep(
            self.show_only(&crate::events::AgentEvent::Notice { name: "bash_execution_update", payload: &payload }),
        );
        output.extend_from_slice(piece);
        if output.len() > 2 * KEPT {
            output.drain(..output.len() - KEPT);
        }
    }

    async fn cut(&self, output: Vec<u8>, exit_code: Option<i64>, cancelled: bool) -> BashResult {
        let text = String::from_utf8_lossy(&output).replace("\r\n", "\n");
        let kept = truncate::tail(&text);
        let mut full_output_path = None;
        if kept.truncated {
            let name = format!("pi-bash-{}.log", self.options.ambient.uuid_v7());
            full_output_path = self.options.system.keep(name, output).await.ok().map(|path| path.display().to_string());
        }
        BashResult { output: kept.content, exit_code, cancelled, truncated: kept.truncated, full_output_path }
    }
}
