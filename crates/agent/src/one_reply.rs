//! One reply beside the conversation: for summaries, and for models that extensions ask themselves.

use crate::agent::Agent;
use crate::message::{AssistantMessage, StopReason};
use crate::partial::Partial;
use crate::provider::{ErrorKind, Outgoing, Provider, ProviderError, ProviderEvent, Request};
use futures_util::StreamExt;
use tokio_util::sync::CancellationToken;

impl Agent {
    /// Sends a request and collects the reply. A failure is a message with what arrived, marked, as pi
    /// has it; no verdict is asked and nothing is shown.
    pub(crate) async fn ask_once(
        &self,
        provider: &dyn Provider,
        request: &Request,
        cancel: CancellationToken,
    ) -> AssistantMessage {
        let mut partial = Partial::new(provider.model(), self.now());
        let headers = self.transform_headers(provider.headers()).await;
        let outgoing = Outgoing { payload: provider.payload(request), headers };
        let ending = collect(&mut partial, provider.send(outgoing, cancel)).await;
        let message = match ending {
            Ok(stop) => {
                partial.finish();
                AssistantMessage { stop_reason: stop, ..partial.message }
            }
            Err(error) => {
                let aborted = error.kind() == ErrorKind::Cancelled;
                let stop_reason = if aborted { StopReason::Aborted } else { StopReason::Error };
                let said = if aborted { "Request was aborted".to_owned() } else { error.to_string() };
                AssistantMessage { stop_reason, error_message: Some(said), ..partial.message }
            }
        };
        AssistantMessage { timestamp: self.now(), ..message }
    }
}

async fn collect(
    partial: &mut Partial,
    mut stream: crate::provider::ProviderStream,
) -> Result<StopReason, ProviderError> {
    while let Some(event) = stream.next().await {
        match event? {
            ProviderEvent::Text(chunk) => drop(partial.push_text(chunk)),
            ProviderEvent::Thinking(chunk) => drop(partial.push_thinking(chunk)),
            ProviderEvent::ToolCall { index, id, name, arguments } => {
                partial.begin_call(index, id, name)?;
                partial.push_arguments(index, arguments);
            }
            ProviderEvent::ThinkingSignature(signature) => partial.sign_thinking(signature),
            ProviderEvent::BlockEnd => drop(partial.close()),
            ProviderEvent::Usage(usage) => partial.message.usage = usage,
            ProviderEvent::Done(stop) => return Ok(stop),
            ProviderEvent::Retrying { .. } | ProviderEvent::Response { .. } => {}
        }
    }
    Err(ProviderError::new(ErrorKind::Network, "the reply ended before it was complete"))
}
