//! One reply beside the conversation: for summaries, and for models that extensions ask themselves.

use crate::agent::Agent;
use crate::message::{AssistantMessage, StopReason};
use crate::partial::{Partial, Step};
use crate::provider::{ErrorKind, Outgoing, Provider, ProviderError, ProviderEvent, Request};
use futures_util::StreamExt;
use std::collections::BTreeMap;
use tokio_util::sync::CancellationToken;

/// Who hears of a reply before it is complete.
pub(crate) trait Listener {
    /// The provider has answered; the reply begins.
    fn response(&self, status: u16, headers: &BTreeMap<String, String>);
    /// More of the reply is there.
    fn step(&self, partial: &Partial, step: &Step);
}

/// Nobody.
impl Listener for () {
    fn response(&self, _status: u16, _headers: &BTreeMap<String, String>) {}
    fn step(&self, _partial: &Partial, _step: &Step) {}
}

impl Agent {
    /// Sends a request and collects the reply. A failure is a message with what arrived, marked, as pi
    /// has it; no verdict is asked and nothing is shown.
    pub(crate) async fn ask_once(
        &self,
        provider: &dyn Provider,
        request: &Request,
        cancel: CancellationToken,
    ) -> AssistantMessage {
        self.ask_once_in_pieces(provider, request, cancel, &()).await
    }

    /// The same; `listener` hears of every piece as it arrives.
    pub(crate) async fn ask_once_in_pieces(
        &self,
        provider: &dyn Provider,
        request: &Request,
        cancel: CancellationToken,
        listener: &dyn Listener,
    ) -> AssistantMessage {
        let mut partial = Partial::new(provider.model(), self.now());
        let headers = self.transform_headers(provider.headers()).await;
        let outgoing = Outgoing { payload: provider.payload(request), headers };
        let ending = collect(&mut partial, provider.send(outgoing, cancel), listener).await;
        let message = match ending {
            Ok(stop) => {
                let (steps, _) = partial.finish();
                steps.iter().for_each(|step| listener.step(&partial, step));
                AssistantMessage { stop_reason: stop, ..partial.message }
            }
            Err(error) => {
                let aborted = error.kind() == ErrorKind::Cancelled;
                let stop_reason = if aborted { StopReason::Aborted } else { StopReason::Error };
                let said = if aborted { "Request was aborted".to_owned() } else { error.message().to_owned() };
                AssistantMessage { stop_reason, error_message: Some(said), ..partial.shown().so_far() }
            }
        };
        AssistantMessage { timestamp: self.now(), ..message }
    }
}

pub(crate) async fn collect(
    partial: &mut Partial,
    mut stream: crate::provider::ProviderStream,
    listener: &dyn Listener,
) -> Result<StopReason, ProviderError> {
    while let Some(event) = stream.next().await {
        let event = event?;
        partial.has_room_for(&event)?;
        let (event, told) = match event {
            ProviderEvent::Untold(event) => (*event, false),
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
            ProviderEvent::Untold(_) => unreachable!("only a piece stands in it"),
            ProviderEvent::Retrying { .. } | ProviderEvent::Begun => continue,
        };
        // A provider may begin a block with nothing in it.
        let told = steps.iter().filter(|step| told && !matches!(step, Step::Delta(_, chunk) if chunk.is_empty()));
        told.for_each(|step| listener.step(partial, step));
    }
    Err(ProviderError::new(ErrorKind::Network, "the reply ended before it was complete"))
}
