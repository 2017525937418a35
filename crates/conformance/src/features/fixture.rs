//! The form of `fixtures/features/*.json`.

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// A package's main feature: setup, answers, steps, and the results with the real pi.
///
/// `{{cwd}}`, `{{home}}`, `{{tmp}}`, `{{owner}}` (`uid-1000`), `{{server:I}}` (its address with scheme) and `{{port:I}}` are
/// replaced in `files`, `home`, `programs`, `env`, `servers`, `model`, `answers` and `steps`; elsewhere they are literal.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fixture {
    /// `NAME@VERSION`, as in `lock.json`.
    pub package: String,
    /// The main feature, from the package's README.
    pub feature: String,
    /// The reason why PiJS does not fully support the feature; empty if it does.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// The capabilities granted at install (`--yes`): all requested ones, in the order of the prompt.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub granted: Vec<String>,
    /// Whether the project is trusted before the session.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub trust: bool,
    /// The expected prompts of pi during the session, with the answers to give; any other prompt is a failure.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub asked: Vec<PromptAnswer>,
    /// Files of the project.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub files: BTreeMap<String, String>,
    /// Files of the home folder.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub home: BTreeMap<String, String>,
    /// Scripts in the first folder of `PATH`, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub programs: BTreeMap<String, String>,
    /// Environment variables.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// Servers on loopback.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub servers: Vec<Listen>,
    /// The model's replies in their order: a text, or a tool call `{tool, input}`, or `{status, error}`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub model: Vec<Reply>,
    /// Answers to dialogs of the extension; a dialog without an answer is cancelled.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub answers: Vec<Dialog>,
    /// The user's inputs.
    pub steps: Vec<Step>,
    /// Replacements of ids and times in the results.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub normalise: Vec<Replace>,
    /// Kinds whose items are compared without order, because they are concurrent in pi as well.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unordered: Vec<String>,
    /// Known differences from `expected`, each with the reason.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub known: BTreeMap<String, String>,
    /// Results with the real pi, by kind; the results of a kind are in order.
    #[serde(default)]
    pub expected: Map<String, Value>,
}

/// A prompt of pi and its answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PromptAnswer {
    /// The text of the prompt after *asks to*.
    pub question: String,
    /// The choice to select.
    pub answer: String,
}

/// A server on loopback.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Listen {
    /// The port; 0 for any.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub port: u16,
    /// The routes; any other request gets 404.
    pub routes: Vec<Route>,
}

fn is_zero(port: &u16) -> bool {
    *port == 0
}

/// One route of a server.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Route {
    /// Method and path, such as `GET /path`.
    pub on: String,
    /// Body of the response: a text, or JSON.
    pub body: Value,
    /// Content type; `None` for `text/plain` if the body is a text, and `application/json` otherwise.
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
}

/// One reply of the model.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Reply {
    /// A text.
    Text(String),
    /// A call of a tool.
    Call {
        /// The tool.
        tool: String,
        /// Arguments of the call.
        input: Value,
    },
    /// A refusal of the server.
    Error {
        /// The HTTP status.
        status: u16,
        /// The message.
        error: String,
    },
}

/// An answer to a dialog.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Dialog {
    /// `select`, `confirm`, `input` or `editor`.
    pub method: String,
    /// A text that the dialog must contain.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub with: String,
    /// The answer: a text, a boolean, or the number of an option.
    pub value: Value,
}

/// One step of a scenario: an input of the user.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// A prompt or a command.
    pub say: String,
    /// A text that ends the step when it appears. Without one, the step ends when the model is idle.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub until: String,
}

/// A replacement.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Replace {
    /// A regular expression.
    pub pattern: String,
    /// The replacement text.
    pub with: String,
}

impl Fixture {
    /// Returns the fixture's name in reports, such as `feature npm:pi-mermaid@0.3.0`.
    pub fn key(&self) -> String {
        format!("feature npm:{}", self.package)
    }

    /// Returns all fixtures of a folder, by file name.
    ///
    /// # Errors
    ///
    /// Fails if files are missing or malformed.
    pub fn all(folder: &Path) -> Result<Vec<(PathBuf, Self)>> {
        let mut files: Vec<PathBuf> = std::fs::read_dir(folder)
            .with_context(|| folder.display().to_string())?
            .map(|entry| entry.map(|entry| entry.path()))
            .collect::<Result<_, _>>()?;
        files.retain(|file| file.extension().is_some_and(|extension| extension == "json"));
        files.sort();
        let read = |file: PathBuf| {
            let text = std::fs::read_to_string(&file).with_context(|| file.display().to_string())?;
            let fixture = serde_json::from_str(&text).with_context(|| file.display().to_string())?;
            Ok((file, fixture))
        };
        files.into_iter().map(read).collect()
    }

    /// Replaces names such as `{{cwd}}` by the values of a run.
    pub(super) fn placed(&self, places: &[(String, String)]) -> Result<Self> {
        let mut text = serde_json::to_string(&Self { expected: Map::new(), ..self.clone() })?;
        for (name, place) in places {
            text = text.replace(name, place);
        }
        // Prompts are compared with the names in them.
        Ok(Self { asked: self.asked.clone(), ..serde_json::from_str(&text)? })
    }
}
