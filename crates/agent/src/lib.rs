//! The agent: turns, providers, tool calls, streamed verdicts, sessions, built-in tools.
//!
//! An [`Agent`] takes a prompt, asks a model, shows every delta to extensions before anybody else
//! sees it, runs the tools the model calls, and writes the session. It owns the order of things;
//! what runs extensions ([`Extensions`]), what answers ([`provider::Provider`]), what shows
//! ([`FrontEnd`]) and what files and processes are ([`ToolSystem`](pijs_tools::system::ToolSystem)) comes from outside.
//!
//! | type | is |
//! |---|---|
//! | [`Agent`], [`AgentOptions`] | runs a session |
//! | [`Outcome`], [`Ending`] | how a prompt ended |
//! | [`AgentControl`] | the part of a running session that others may touch, from any thread |
//! | [`Extensions`] | the seam to whatever runs extensions |
//! | [`provider::Provider`] | a model: `script:FILE`, `openai/NAME`, `anthropic/NAME` |
//! | [`pijs_session_store::Session`] | pi's JSONL, version 3 |
//! | [`AgentEvent`], [`FrontEnd`] | what is seen, and by whom |
//!
//! What always holds:
//!
//! * A delta reaches session, front end and `message_update` only after every verdict on it.
//! * A discarded attempt is nowhere: the conversation is read from the session, and only complete
//!   messages get there.
//! * A tool call whose arguments did not arrive whole is not run, and neither is one of a reply that
//!   failed.
//! * Nothing here reads the environment, the clock or randomness on its own.

#![warn(missing_docs)]

mod accounts;
mod actions;
mod agent;
mod ask_model;
mod asked;
mod asking;
mod attempt;
mod beginning;
mod boundary;
mod choices;
mod compaction;
mod control;
mod events;
mod extension_model;
mod extensions;
mod front_end;
pub mod host;
mod incoming;
mod model_lists;
mod observer;
mod one_reply;
pub mod ports;
mod queued;
mod replace;
mod room;
mod rules;
mod run;
pub mod settings;
mod starts;
mod summary;
pub mod system_prompt;
mod tokens;
mod tool;
mod tool_calls;
pub mod tool_port;
mod tool_set;
mod transcript;
mod user_bash;
mod verdict_text;
mod verdicts;
mod work;

#[cfg(test)]
mod testing;

pub use accounts::Account;
pub use actions::{NavigateOptions, Navigation};
pub use agent::{Agent, AgentError, AgentOptions, Ending, InputSource, MOST_TURNS, Outcome};
pub use asked::AskLimits;
pub use asking::Disposition;
pub use beginning::FirstModel;
pub use control::{AgentControl, ControlError, UiPrompt, VERDICT_TYPE};
pub use events::{AgentEvent, RuleFiredEvent, VerdictAction, VerdictEvent};
pub use extensions::{
    Abort, CommandError, CommandFate, Event, EventOutcome, ExtensionTool, Extensions, ModelCall, NoExtensions, NoState,
    StateSink, StreamFate, SystemRole, ToolFate, ToolRun, ToolSource,
};
pub use front_end::{FrontEnd, JsonFrontEnd, NoFrontEnd, ToolCheck};
pub use observer::{PortObserver, RunTool, ToolUpdates};
pub use pijs_inputs::{Authored, DeliverAs, Pending};
pub use replace::Forked;
pub use room::SESSION_BYTES;
pub use rules::{ChangedRules, FIRED_TYPE, RuleSource, SessionRules, records_of};
pub use tool::Tool;
pub use tool_set::{ToolChoice, ToolSet};
pub use user_bash::BashResult;
pub use verdicts::{Cap, VerdictCaps, VerdictTotals};
