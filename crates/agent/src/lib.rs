//! The agent: runs turns of a conversation with a model, its tools and extensions.
//!
//! An [`Agent`] takes a prompt, requests a reply, passes every delta to extensions before anything else sees it, runs the tools
//! that the model calls, and writes the session. Its environment is passed in: extensions ([`Extensions`]), models
//! ([`pijs_llm::provider::Provider`]), the front end ([`FrontEnd`]), and files and processes
//! ([`ToolSystem`](pijs_tools::system::ToolSystem)).
//!
//! | type | description |
//! |---|---|
//! | [`Agent`], [`AgentOptions`] | runs a session |
//! | [`Outcome`], [`Ending`] | outcome of a prompt |
//! | [`AgentControl`] | handle to a running session, for any thread |
//! | [`Extensions`] | interface to the extension host |
//! | [`pijs_llm::provider::Provider`] | a model: `script:FILE`, `openai/NAME`, `anthropic/NAME` |
//! | [`pijs_session_store::Session`] | session in pi's format, version 3 |
//! | [`AgentEvent`], [`FrontEnd`] | events and their receiver |
//!
//! Invariants:
//!
//! * A delta reaches the session, the front end and `message_update` only after all verdicts on it.
//! * A discarded attempt leaves no message: the conversation is read from the session, which contains only complete messages.
//! * A tool call with incomplete arguments, or in a failed reply, does not run.
//! * The crate does not read the environment, the clock or randomness.

#![warn(missing_docs)]

mod accounts;
mod actions;
mod agent;
mod attempt;
mod attending;
mod compaction;
mod control;
mod declared;
mod emission;
mod event_queue;
mod events;
mod extension_model;
mod extensions;
mod front_end;
pub mod host;
mod incoming;
mod initial_model;
mod lifecycle;
mod mailbox;
mod model_choice;
mod model_lists;
mod model_quota;
mod model_requests;
mod observed;
mod observer;
mod options;
mod outcome;
pub mod ports;
mod preferences;
mod rules;
mod run;
mod session_switch;
pub mod settings;
mod single_request;
mod submit;
mod summary;
pub mod system_prompt;
mod tokens;
mod tool;
mod tool_calls;
pub mod tool_port;
mod tool_set;
mod transcript;
mod turn_boundary;
mod user_bash;
mod verdict_text;
mod verdicts;

#[cfg(test)]
mod testing;

pub use accounts::Account;
pub use actions::{NavigateOptions, Navigation};
pub use agent::Agent;
pub use control::{AgentControl, SESSION_BYTES, UiPrompt, VERDICT_TYPE};
pub use events::{AgentEvent, RuleFiredEvent, VerdictAction, VerdictEvent};
pub use extensions::{
    CommandError, CommandFate, Event, EventOutcome, ExtensionTool, Extensions, ModelCall, NoExtensions, NoState,
    StateSink, StreamFate, SystemRole, ToolFate, ToolRun, ToolSource, VerdictAbort,
};
pub use front_end::{FrontEnd, JsonFrontEnd, NoFrontEnd, ToolCheck};
pub use model_quota::ModelQuotaLimits;
pub use observer::{OpenSession, PortObserver, RunShell, RunTool, SessionFault, ShellOutput, ToolUpdates};
pub use options::{AgentOptions, InitialModel, MAX_TURNS};
pub use outcome::{AgentError, ControlError, Ending, InputSource, Outcome};
pub use pijs_inputs::{Authored, Authors, DeliverAs, Pending};
pub use pijs_rules::session::{ChangedRules, FIRED_TYPE, RuleSource, SessionRules};
pub use rules::records_of;
pub use session_switch::ForkResult;
pub use submit::Disposition;
pub use tool::Tool;
pub use tool_set::{ToolChoice, ToolSet};
pub use user_bash::BashResult;
pub use verdicts::{Cap, VerdictCaps, VerdictTotals};
