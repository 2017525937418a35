//! Port of a session for MCP servers: folders, ledger, notices, pins, the model.

use super::auth_file::McpAuthFile;
use super::pin_file::PinFile;
use super::program_files::ProgramFiles;
use crate::notices::Notices;
use pijs_agent::AgentControl;
use pijs_environment::Timer;
use pijs_hostcall::{Caller, Ledger};
use pijs_mcp::oauth::SignIn;
use pijs_mcp::pins::{Pins, ToolDigests};
use pijs_mcp::session_port::{ProgramStart, SessionPort};
use pijs_protocol::log::Level;
use pijs_redact::Redactor;
use serde_json::{Map, json};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Parts of the session that servers need.
pub(super) struct McpSessionPort {
    pub(super) roots: Vec<PathBuf>,
    pub(super) notices: Notices,
    pub(super) pins: PinFile,
    pub(super) programs: ProgramFiles,
    pub(super) sign_ins: McpAuthFile,
    pub(super) ledger: Ledger,
    pub(super) control: AgentControl,
    pub(super) has_ui: bool,
    pub(super) timer: Arc<dyn Timer>,
}

/// Redacts a value of `env` or `headers` in output and records, unless it is the path of an existing file or folder.
pub(super) fn learn_setting(redactor: &Redactor, value: &str) {
    if !(value.starts_with('/') && Path::new(value).exists()) {
        redactor.learn_setting(value);
    }
}

impl SessionPort for McpSessionPort {
    fn roots(&self) -> Vec<PathBuf> {
        self.roots.clone()
    }

    fn log(&self, caller: &Caller, level: &str, logger: Option<&str>, text: &str) {
        let level = match level {
            "debug" => Level::Debug,
            "warning" => Level::Warn,
            "error" | "critical" | "alert" | "emergency" => Level::Error,
            _ => Level::Info,
        };
        let said = json!({"logger": logger, "message": text});
        let data = Map::from_iter([("extension".to_owned(), said)]);
        self.ledger.event(self.timer.now(), caller, level, "mcp.log", "a line of an MCP server", data);
    }

    fn program(&self, start: &ProgramStart, known: &ToolDigests) -> Result<ToolDigests, String> {
        self.programs.digests(start, known)
    }

    fn sign_in(&self, key: &str) -> Option<SignIn> {
        self.sign_ins.read(key).unwrap_or_else(|failure| {
            self.notices.warn(failure);
            None
        })
    }

    fn keep_sign_in(&self, key: &str, sign_in: &SignIn) {
        if let Err(failure) = self.sign_ins.put(key, Some(sign_in)) {
            self.notices.warn(failure);
        }
    }

    fn asks_users(&self) -> bool {
        self.has_ui
    }

    fn model(&self) -> Option<(String, String)> {
        self.control.model().map(|model| (model.provider, model.id))
    }

    fn learn(&self, secret: &str) {
        self.ledger.redactor().learn(secret);
    }

    fn learn_setting(&self, value: &str) {
        learn_setting(self.ledger.redactor(), value);
    }

    fn redacted(&self, text: &str) -> String {
        self.ledger.redactor().text(text)
    }

    fn notice(&self, line: String) {
        self.notices.warn(self.ledger.redactor().text(&line));
    }

    fn pins(&self) -> Pins {
        self.pins.read()
    }

    fn change_pins(&self, change: &mut dyn FnMut(&mut Pins)) {
        if let Err(failure) = self.pins.change(change) {
            self.notices.warn(format!("the tool descriptions of MCP servers are not stored: {failure}"));
        }
    }
}
