//! The agent from outside: scripted and loopback models, fake extensions, real sessions.

mod http;
mod order;
mod rules;
mod support;
mod tools;
mod verdicts;
