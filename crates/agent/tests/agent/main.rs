//! Integration tests of the agent with scripted and loopback models, fake extensions and real sessions.

mod http;
mod order;
mod rules;
mod support;
mod tools;
mod verdicts;
