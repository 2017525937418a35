//! Checks the shape of the value that a tool returns: `{ content: [{ type: "text", text }, ...], details }`.
//!
//! pi accepts any value: it reads `content` of it, and a missing one is an empty list. The result is the same here, and the author
//! gets a warning.

use pijs_protocol::call::reader::kind;
use serde_json::Value;

/// Describes the mistake in the value that a tool returned, for the author.
pub(crate) fn wrong_tool_result(tool: &str, output: &Value) -> Option<String> {
    let (what, effect) = match output {
        Value::Null => ("nothing".to_owned(), "the call failed"),
        Value::Object(members) => match members.get("content") {
            None | Some(Value::Null) => ("an object without `content`".to_owned(), "the model gets an empty result"),
            Some(Value::Array(blocks)) => {
                let (at, block) = blocks.iter().enumerate().find(|(_, block)| !is_block(block))?;
                (format!("a result whose `content[{at}]` is {}", wrong_block(block)), "the model gets its JSON")
            }
            Some(content) => (format!("a result whose `content` is {}", kind(content)), "the call failed"),
        },
        other => (kind(other).to_owned(), "the model gets an empty result"),
    };
    let tool = serde_json::to_string(tool).unwrap_or_default();
    Some(format!(
        "the tool {tool} returned {what}, so {effect}; return {{ content: [{{ type: \"text\", text: \"...\" }}], details: {{}} }}"
    ))
}

fn is_block(block: &Value) -> bool {
    let has = |member: &str| block.get(member).is_some_and(Value::is_string);
    match block.get("type").and_then(Value::as_str) {
        Some("text") => has("text"),
        Some("image") => has("data") && has("mimeType"),
        _ => false,
    }
}

fn wrong_block(block: &Value) -> &'static str {
    match block.get("type").and_then(Value::as_str) {
        Some("text") => "a text block whose `text` is not a string",
        Some("image") => "an image block without `data` and `mimeType`",
        _ if block.is_object() => "an object whose `type` is neither \"text\" nor \"image\"",
        _ => kind(block),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn each_wrong_shape_is_described() {
        for (output, what) in [
            (json!(null), "nothing, so the call failed"),
            (json!("6"), "a string, so the model gets an empty result"),
            (json!([{ "type": "text", "text": "6" }]), "an array, so the model gets an empty result"),
            (json!({}), "an object without `content`, so the model gets an empty result"),
            (json!({ "content": "6" }), "a result whose `content` is a string, so the call failed"),
            (json!({ "content": ["6"] }), "a result whose `content[0]` is a string, so the model gets its JSON"),
            (
                json!({ "content": [{ "type": "text", "text": "6" }, { "text": "6" }] }),
                "a result whose `content[1]` is an object whose `type` is neither \"text\" nor \"image\"",
            ),
            (
                json!({ "content": [{ "type": "text", "text": 6 }] }),
                "a result whose `content[0]` is a text block whose `text` is not a string",
            ),
        ] {
            let message = wrong_tool_result("roll", &output).expect("it is wrong");
            assert!(message.starts_with(&format!("the tool \"roll\" returned {what}")), "{message}");
        }
        let image = json!({ "type": "image", "data": "", "mimeType": "image/png" });
        for output in [json!({ "content": [] }), json!({ "content": [{ "type": "text", "text": "" }, image] })] {
            assert_eq!(wrong_tool_result("roll", &output), None);
        }
    }
}
