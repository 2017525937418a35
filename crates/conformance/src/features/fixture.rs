//! The form of `fixtures/features/*.json`.

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// One package: what is installed, which answers are given, what is done with it, and what came of it in the real pi.
///
/// `{{cwd}}`, `{{home}}`, `{{tmp}}`, `{{owner}}` (`uid-1000`), `{{server:I}}` (its address with scheme) and `{{port:I}}`
/// are replaced in `files`, `home`, `programs`, `env`, `servers`, `model`, `answers` and `steps`; elsewhere they stand for
/// themselves.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fixture {
    /// `NAME@VERSION`, as in `lock.json`.
    pub package: String,
    /// The main feature, as its README has it.
    pub feature: String,
    /// Why not all of it can be had here; empty otherwise.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// What is granted at install: all that is asked for (`--yes`). Capabilities, in the order of the question.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub granted: Vec<String>,
    /// Whether the project is trusted before the session.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub trust: bool,
    /// What pi asks the person during the session, with the answer that is given; nothing else may be asked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub asked: Vec<Consent>,
    /// Files of the project.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub files: BTreeMap<String, String>,
    /// Files of the home folder.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub home: BTreeMap<String, String>,
    /// Programs on the path, before all others.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub programs: BTreeMap<String, String>,
    /// Variables.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// Servers on loopback.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub servers: Vec<Listen>,
    /// The model's replies in their order: a text, or a tool call `{tool, input}`, or `{status, error}`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub model: Vec<Reply>,
    /// Answers to dialogs of the extension; one without an answer is cancelled.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub answers: Vec<Dialog>,
    /// What the person says.
    pub steps: Vec<Step>,
    /// Expressions over what was seen, for ids and times.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub normalise: Vec<Replace>,
    /// Kinds of which only the number and the content count, not the order: what runs side by side in pi, too.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unordered: Vec<String>,
    /// Places of `expected` that are otherwise here, each with the reason.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub known: BTreeMap<String, String>,
    /// What was seen in the real pi, by kind; within a kind in order.
    #[serde(default)]
    pub expected: Map<String, Value>,
}

/// A question of pi and its answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Consent {
    /// After *asks to*.
    pub question: String,
    /// One of the choices.
    pub answer: String,
}

/// A server.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Listen {
    /// 0: any.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub port: u16,
    /// What it answers; 404 to anything else.
    pub routes: Vec<Route>,
}

fn is_zero(port: &u16) -> bool {
    *port == 0
}

/// One answer of a server.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Route {
    /// `GET /path`.
    pub on: String,
    /// JSON, or a text.
    pub body: Value,
    /// `text/plain` for a text, `application/json` else.
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
        /// Its arguments.
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
    /// What has to occur in it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub with: String,
    /// A text, a boolean, or the number of an option.
    pub value: Value,
}

/// What a person does.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// A prompt or a command.
    pub say: String,
    /// A text of what is seen: the step is over when it has come. Without one, when the model has nothing more to do.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub until: String,
}

/// A replacement.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Replace {
    /// A regular expression.
    pub pattern: String,
    /// What it becomes.
    pub with: String,
}

impl Fixture {
    /// Names it in lists: `feature npm:pi-mermaid@0.3.0`.
    pub fn key(&self) -> String {
        format!("feature npm:{}", self.package)
    }

    /// All fixtures of a folder, by file name.
    ///
    /// # Errors
    ///
    /// Files that are missing or malformed.
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

    /// With the places of a run in place of their names.
    pub(super) fn placed(&self, places: &[(String, String)]) -> Result<Self> {
        let mut text = serde_json::to_string(&Self { expected: Map::new(), ..self.clone() })?;
        for (name, place) in places {
            text = text.replace(name, place);
        }
        // Questions are compared by the names of places.
        Ok(Self { asked: self.asked.clone(), ..serde_json::from_str(&text)? })
    }
}
