//! A session over RPC: sends a user's inputs, answers dialogs, and records observations.
//!
//! No step waits for a fixed time: a step ends when a text has appeared, or when the session reports that it has settled.

use super::fixture::{Dialog, Fixture, PromptAnswer};
use super::observations::Observations;
use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

/// Time limit for each line of output; far more than any step takes.
const LIMIT: Duration = Duration::from_secs(120);
/// The first choice of pi's own prompts.
const FIRST_CHOICE: &str = "Allow this once";

/// A running session.
pub(super) struct Session {
    child: Child,
    input: Option<ChildStdin>,
    lines: Lines<BufReader<ChildStdout>>,
    /// Answers to dialogs that were not used yet.
    dialogs: Vec<Dialog>,
    consents: Vec<PromptAnswer>,
    /// Prompts of pi so far, with the answers given.
    pub(super) asked: Vec<PromptAnswer>,
    seen: Observations,
    /// Number of runs of the model that have ended.
    settled: usize,
    /// Whether a run of the model is active.
    runs: bool,
}

impl Session {
    pub(super) fn start(mut command: Command, fixture: &Fixture, seen: Observations) -> Result<Self> {
        let mut child = command.spawn().context("pi cannot be started")?;
        let input = child.stdin.take();
        let lines = BufReader::new(child.stdout.take().context("the stdout of pi is not piped")?).lines();
        let (dialogs, consents) = (fixture.answers.clone(), fixture.asked.clone());
        Ok(Self { child, input, lines, dialogs, consents, asked: Vec::new(), seen, settled: 0, runs: false })
    }

    /// Runs all steps and ends the session.
    pub(super) async fn run(&mut self, fixture: &Fixture) -> Result<()> {
        self.ask("state", &json!({ "type": "get_state" })).await.context("pi does not start")?;
        for step in &fixture.steps {
            let (mark, settled) = (self.seen.mark(), self.settled);
            let answer = self.ask("step", &json!({ "type": "prompt", "message": step.say })).await;
            let answer = answer.with_context(|| step.say.clone())?;
            if answer["success"] != true {
                bail!("{}: {answer}", step.say);
            }
            while !self.is_over(&step.until, mark, settled) {
                let line = self.line().await.with_context(|| format!("{}: it never came to an end", step.say))?;
                self.hear(&line).await?;
            }
        }
        self.input = None;
        // Results at the end of the session are recorded as well.
        while let Some(line) = self.next().await? {
            self.hear(&line).await?;
        }
        let ended = tokio::time::timeout(LIMIT, self.child.wait())
            .await
            .context("pi did not exit within 120 s after its stdin was closed")??;
        if !ended.success() {
            bail!("pi failed: {ended}");
        }
        Ok(())
    }

    fn is_over(&self, until: &str, mark: usize, settled: usize) -> bool {
        if until.is_empty() {
            self.settled > settled && !self.runs
        } else {
            !self.runs && self.seen.has_since(mark, until)
        }
    }

    /// Sends a command and waits for its response.
    async fn ask(&mut self, id: &str, command: &Value) -> Result<Value> {
        let mut command = command.clone();
        command["id"] = id.into();
        self.send(&command).await?;
        loop {
            let line = self.line().await?;
            if line["type"] == "response" && line["id"] == id {
                return Ok(line);
            }
            self.hear(&line).await?;
        }
    }

    async fn send(&mut self, message: &Value) -> Result<()> {
        let input = self.input.as_mut().context("its input was closed")?;
        Ok(input.write_all(format!("{message}\n").as_bytes()).await?)
    }

    async fn line(&mut self) -> Result<Value> {
        self.next().await?.context("it ended")
    }

    async fn next(&mut self) -> Result<Option<Value>> {
        let line = tokio::time::timeout(LIMIT, self.lines.next_line()).await;
        let line = line.with_context(|| format!("nothing for {} s", LIMIT.as_secs()))??;
        line.map(|line| serde_json::from_str(&line).with_context(|| format!("no JSON: {line}"))).transpose()
    }

    async fn hear(&mut self, line: &Value) -> Result<()> {
        match line["type"].as_str().unwrap_or_default() {
            "extension_ui_request" => self.shown(line).await?,
            "agent_start" => self.runs = true,
            "agent_settled" => {
                self.runs = false;
                self.settled += 1;
            }
            "tool_execution_end" => self.seen.tool(line),
            "message_end" => self.seen.message(&line["message"]),
            "extension_error" => self.seen.note("errors", json!({ "event": line["event"], "error": line["error"] })),
            _ => {}
        }
        Ok(())
    }

    async fn shown(&mut self, request: &Value) -> Result<()> {
        let method = request["method"].as_str().unwrap_or_default();
        let mut response = json!({ "type": "extension_ui_response", "id": request["id"] });
        if !["select", "confirm", "input", "editor"].contains(&method) {
            self.seen.shown(method, request);
            return Ok(());
        }
        if method == "select" && request["options"][0] == FIRST_CHOICE {
            let title = request["title"].as_str().unwrap_or_default();
            let question = self.seen.plain(title.split_once(" asks to ").map_or(title, |(_, question)| question));
            let known = self.consents.iter().position(|consent| consent.question == question);
            let answer = known.map_or_else(|| "Deny".to_owned(), |at| self.consents.remove(at).answer);
            response["value"] = answer.clone().into();
            self.asked.push(PromptAnswer { question, answer });
            return self.answer(&response).await;
        }
        let text = request.to_string();
        let fits = |dialog: &Dialog| dialog.method == method && text.contains(&dialog.with);
        let answer = self.dialogs.iter().position(fits).map(|at| self.dialogs.remove(at).value);
        let value = match answer {
            Some(Value::Number(option)) => {
                Some(request["options"][usize::try_from(option.as_u64().unwrap_or(0))?].clone())
            }
            other => other,
        };
        match &value {
            None => response["cancelled"] = true.into(),
            Some(Value::Bool(confirmed)) => response["confirmed"] = (*confirmed).into(),
            Some(value) => response["value"] = value.clone(),
        }
        self.seen.dialog(method, request, value);
        self.answer(&response).await
    }

    /// Sends a response, unless the session is closing.
    async fn answer(&mut self, response: &Value) -> Result<()> {
        if self.input.is_some() { self.send(response).await } else { Ok(()) }
    }
}
