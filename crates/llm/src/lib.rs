//! Language models: messages, streamed replies, providers, the catalogue, credentials and the resolution of model names.
//!
//! A [`provider::Provider`] turns a [`provider::Request`] into a stream of [`provider::ProviderEvent`]s, from which
//! [`partial::Partial`] assembles a [`message::AssistantMessage`]. The crate does not depend on sessions, tools or extensions.
//!
//! | module | contents |
//! |---|---|
//! | [`message`] | messages in pi's format |
//! | [`partial`], [`update`], [`one_reply`] | a reply during streaming, and its updates |
//! | [`argument_paths`], [`streaming_json`] | arguments of a tool call during streaming |
//! | [`provider`] | the protocols: OpenAI completions and responses, Anthropic, Google, scripts |
//! | [`catalogue`], [`models_json`], [`known_models`], [`models`] | available models: pi's list, the user's file, both, and those of extensions |
//! | [`auth`] | keys and logins |
//! | [`user_servers`] | servers that the user's configuration names |
//! | [`choose`] | resolution of model names |
//! | [`conversation`], [`pi_context`] | requests from messages of a session or of an extension |
//! | [`tokens`] | token counts of messages and requests |
//!
//! The crate does not read the environment, the clock or randomness.

#![warn(missing_docs)]

pub mod argument_paths;
pub mod auth;
pub mod catalogue;
pub mod choose;
pub mod conversation;
pub mod known_models;
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
pub mod user_servers;
