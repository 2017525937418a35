//! An extension of pi: the tool `count_words`, and a rule that stops a reply with a TODO in it.
//!
//! `wit/extension.wit` documents every function. A panic ends this instance; the next turn begins with a new one.

wit_bindgen::generate!({ path: "wit", world: "extension" });

use pi::extension::types::{Failure, Injection, InjectionRole, StreamSource, Tool};
use serde_json::{Value, json};
use std::cell::RefCell;

struct Words;

/// The text of one attempt by the model that has arrived so far.
#[derive(Default)]
struct Reply {
    attempt: u32,
    text: String,
}

thread_local! {
    static REPLY: RefCell<Reply> = RefCell::default();
}

impl Guest for Words {
    fn register() -> Result<Registration, Error> {
        let parameters = json!({
            "type": "object",
            "properties": { "text": { "type": "string", "description": "The text" } },
            "required": ["text"],
        });
        Ok(Registration {
            tools: vec![Tool {
                name: "count_words".into(),
                label: "Count words".into(),
                description: "Counts the words of a text.".into(),
                parameters: parameters.to_string(),
            }],
            commands: Vec::new(),
            events: Vec::new(),
            streams: vec![StreamSource::Text],
            flags: Vec::new(),
        })
    }

    /// Called with each piece of a reply before the user, the session or another listener sees it.
    fn stream_text(delta: Delta) -> Result<Verdict, Error> {
        let is_unfinished = REPLY.with_borrow_mut(|reply| {
            if reply.attempt != delta.attempt {
                *reply = Reply { attempt: delta.attempt, text: String::new() };
            }
            reply.text.push_str(&delta.chunk);
            reply.text.contains("TODO")
        });
        if !is_unfinished {
            return Ok(Verdict::Pass);
        }
        let content = "Finish the work; leave no TODO.".into();
        Ok(Verdict::Abort(Some(Injection { content, role: InjectionRole::System })))
    }

    fn call_tool(call: ToolCall) -> Result<Outcome, Error> {
        let input: Value = serde_json::from_str(&call.input).map_err(|error| invalid(error.to_string()))?;
        let text = input["text"].as_str().ok_or_else(|| invalid("text is missing".into()))?;
        let count = text.split_whitespace().count();
        let said = format!("{count} words");
        let result = json!({ "content": [{ "type": "text", "text": said }], "details": { "count": count } });
        Ok(Outcome::Value(result.to_string()))
    }

    fn on_event(_: Event) -> Result<Answer, Error> {
        Ok(Answer::Nothing)
    }

    fn run_command(_: CommandCall) -> Result<Answer, Error> {
        Ok(Answer::Nothing)
    }

    fn complete(_: Completion) -> Result<(), Error> {
        Ok(())
    }
}

fn invalid(message: String) -> Error {
    Error::InvalidRequest(Failure { message, retryable: false, details: "{}".into() })
}

export!(Words);
