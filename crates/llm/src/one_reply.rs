//! Collects a reply from a provider's stream.

use crate::message::StopReason;
use crate::partial::{Partial, Step};
use crate::provider::{ErrorKind, ProviderError, ProviderEvent, ProviderStream};
use futures_util::StreamExt;
use std::collections::BTreeMap;

/// Observes a reply before it is complete.
pub trait Listener {
    /// Called when the provider has responded and the reply begins.
    fn response(&self, status: u16, headers: &BTreeMap<String, String>);
    /// Called for each new part of the reply.
    fn step(&self, partial: &Partial, step: &Step);
}

/// Ignores all notifications.
impl Listener for () {
    fn response(&self, _status: u16, _headers: &BTreeMap<String, String>) {}
    fn step(&self, _partial: &Partial, _step: &Step) {}
}

/// Reads a reply to its end and notifies `listener` of every reported part.
///
/// # Errors
///
/// Fails with the provider's error, or `network` when the reply ends early; `partial` contains the received part.
pub async fn collect(
    partial: &mut Partial,
    mut stream: ProviderStream,
    listener: &dyn Listener,
) -> Result<StopReason, ProviderError> {
    while let Some(event) = stream.next().await {
        let event = event?;
        partial.has_room_for(&event)?;
        let (event, told) = match event {
            ProviderEvent::RulesOnly(event) => (*event, false),
            event => (event, true),
        };
        let steps = match event {
            ProviderEvent::Text(chunk) => partial.push_text(chunk),
            ProviderEvent::Thinking(chunk) => partial.push_thinking(chunk),
            ProviderEvent::ToolCall { index, id, name, arguments } => {
                let mut steps = partial.begin_call(index, id, name)?;
                steps.extend(partial.push_arguments(index, arguments));
                steps
            }
            ProviderEvent::Note(note) => {
                partial.note(note);
                continue;
            }
            ProviderEvent::Open(block) => partial.begin(block),
            ProviderEvent::BlockEnd => partial.end(),
            ProviderEvent::Response { status, headers } => {
                listener.response(status, &headers);
                continue;
            }
            ProviderEvent::Done(stop) => return Ok(stop),
            ProviderEvent::RulesOnly(_) => unreachable!("only a piece stands in it"),
            ProviderEvent::Retrying { .. } | ProviderEvent::Begun => continue,
        };
        // Skips empty deltas, since a provider may begin a block without content.
        let told = steps.iter().filter(|step| told && !matches!(step, Step::Delta(_, chunk) if chunk.is_empty()));
        told.for_each(|step| listener.step(partial, step));
    }
    Err(ProviderError::new(ErrorKind::Network, "the reply ended before it was complete"))
}
