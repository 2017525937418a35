//! Single replies outside of the conversation: for summaries, and for model requests of extensions.

use crate::agent::Agent;
use pijs_llm::message::{AssistantMessage, StopReason};
use pijs_llm::one_reply::{Listener, collect};
use pijs_llm::partial::Partial;
use pijs_llm::provider::{ErrorKind, Outgoing, Provider, Request};
use tokio_util::sync::CancellationToken;

impl Agent {
    /// Sends a request and collects the reply. A failure is returned as a message with the part received so far, as in pi.
    /// Verdicts do not apply, and no event is sent.
    pub(crate) async fn request_once(
        &self,
        provider: &dyn Provider,
        request: &Request,
        cancel: CancellationToken,
    ) -> AssistantMessage {
        self.request_once_observed(provider, request, cancel, &()).await
    }

    /// Sends a request and notifies `listener` of every piece of the reply.
    pub(crate) async fn request_once_observed(
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
