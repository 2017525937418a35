//! The request of a turn to its model.

use crate::error::RummyError;
use crate::run::{Loop, RunDriver};
use crate::turn::Turn;
use pijs_llm::message::Block;
use pijs_llm::one_reply;
use pijs_llm::partial::Partial;
use pijs_llm::provider::{Request, RequestMessage};
use serde_json::{Value, json};

impl RunDriver<'_> {
    /// Asks the model; its reply in the form of chat completions.
    pub(crate) async fn complete(
        &self,
        state: &Loop,
        _turn: &mut Turn<'_>,
        messages: &Value,
        system: &str,
    ) -> Result<Value, RummyError> {
        let mut request = Request { system: system.to_owned(), ..Request::default() };
        for message in messages.as_array().into_iter().flatten() {
            let words = message["content"].as_str().unwrap_or_default();
            match message["role"].as_str() {
                Some("system") => words.clone_into(&mut request.system),
                _ => request.messages.push(RequestMessage::user(words)),
            }
        }
        let model = &state.model;
        let mut partial = Partial::new(model.model(), self.ambient.epoch_ms());
        let stream = model.send(model.payload(&request).into(), self.cancel.child_token());
        let done = one_reply::collect(&mut partial, stream, &()).await;
        done.map_err(|error| RummyError::Model(error.to_string()))?;
        partial.finish();
        let reply = partial.shown().so_far();
        let thinking: Vec<&str> = reply.content.iter().filter_map(thinking_of).collect();
        let usage = &reply.usage;
        Ok(json!({
            "model": reply.model,
            "choices": [{ "index": 0, "finish_reason": "stop", "message": {
                "role": "assistant", "content": reply.text(), "reasoning_content": thinking.join("\n"),
            } }],
            "usage": {
                "prompt_tokens": usage.input + usage.cache_read, "cached_tokens": usage.cache_read,
                "completion_tokens": usage.output, "total_tokens": usage.total_tokens,
            },
        }))
    }
}

fn thinking_of(block: &Block) -> Option<&str> {
    match block {
        Block::Thinking(block) => Some(&block.thinking),
        _ => None,
    }
}
