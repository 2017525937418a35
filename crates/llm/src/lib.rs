//! Models: messages, the stream of a reply, providers, the catalogue, credentials and the choice of a model.
//!
//! A [`provider::Provider`] turns a [`provider::Request`] into a stream of [`provider::ProviderEvent`]s, of which
//! [`partial::Partial`] makes a [`message::AssistantMessage`]. Nothing here knows a session, a tool or an extension.
//!
//! | module | holds |
//! |---|---|
//! | [`message`] | pi's messages, as session files and providers have them |
//! | [`partial`], [`update`], [`one_reply`] | a reply while it arrives, and what is new in it |
//! | [`argument_paths`], [`streaming_json`] | arguments of a tool call while they arrive |
//! | [`provider`] | the protocols: OpenAI completions and responses, Anthropic, Google, scripts |
//! | [`catalogue`], [`models_json`], [`known`], [`models`] | the models there are: pi's list, the user's file, both, and extensions' |
//! | [`auth`] | keys and log-ins |
//! | [`choose`] | the model that a name means |
//! | [`conversation`], [`pi_context`] | messages of a session, and of an extension, as a request |
//! | [`tokens`] | sizes of messages and requests |
//!
//! Nothing here reads the environment, the clock or randomness on its own.

#![warn(missing_docs)]

pub mod argument_paths;
pub mod auth;
pub mod catalogue;
pub mod choose;
pub mod conversation;
pub mod known;
pub mod message;
pub mod models;
pub mod models_json;
pub mod one_reply;
pub mod overflow;
pub mod partial;
pub mod pi_context;
pub mod provider;
pub mod streaming_json;
pub mod tokens;
pub mod update;
