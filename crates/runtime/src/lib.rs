//! Builds sessions of pi: extensions, gate, ledger, host, model, agent.
//!
//! This is the only composition root. The command line, RPC, `pi ext drive`, `pi ext snapshot` and programs that embed PiJS build
//! their sessions here; `examples/session.rs` is a complete program.
//!
//! | type | is |
//! |---|---|
//! | [`Environment`] | folders, variables and terminals of the process, read once |
//! | [`SessionConfig`] | the user's choices for a session, as plain data |
//! | [`Interface`] | the user interface: events, dialogs, questions |
//! | [`SessionBuilder`] | puts the parts together; each can be replaced |
//! | [`LoadedSession`], [`AgentSession`] | the session before and after its model is chosen |
//! | [`UserError`] | an error for the user: message, next step, exit code |
//!
//! Invariants: this crate never prints, and reads the process environment only in [`Environment::capture`]; messages for the user
//! go to [`Notices`].

#![warn(missing_docs)]

mod agent_tape;
mod builder;
pub mod compile;
pub mod compiled_package;
mod config;
mod environment;
pub mod export;
pub mod facts;
pub mod grant_file;
pub mod grants;
mod interface;
pub mod isolation;
pub mod keys;
mod ledger;
mod loading;
mod logging_no_ui;
pub mod made_files;
pub mod mcp;
pub mod mcp_commands;
pub mod mcp_config;
pub mod models;
mod named_by_settings;
mod notices;
mod notifying_ui;
pub mod open_session;
mod own_state;
pub mod package_request;
pub mod pi_texts;
mod prompt_text;
pub mod proxies;
pub mod renderers;
pub mod repeated_reports;
mod reports;
pub mod rules;
mod session;
pub mod settings;
pub mod shutdown_signals;
mod similar;
pub mod slow_task;
pub mod supply;
pub mod tape;
mod text;
pub mod throwaway;
pub mod trust;
mod user_error;
mod watchdog;

pub use agent_tape::{AgentOutcome, ReplayStop, StopReason, replay_agent};
pub use builder::{ConnectorParts, CopiedPackage, SessionBuilder, realm_limits};
pub use config::{
    ExtensionConfig, Isolation, ModelConfig, Permissions, RulesConfig, SessionChoice, SessionConfig, StoreConfig,
};
pub use environment::{Environment, terminal_size};
pub use interface::{Interface, WrapState};
pub use ledger::{folder as ledger_folder, redactor as log_redactor};
pub use loading::UNKNOWN_OPTION;
pub use notices::Notices;
pub use pijs_terminal::{similar, similar_models, similar_names};
pub use session::{AgentSession, LoadedSession, WIND_DOWN};
pub use similar::meant_path;
pub use text::{clean, indented, option_text};
pub use user_error::{Exit, Result, UserError, is_missing};
pub use watchdog::WatchThread;
