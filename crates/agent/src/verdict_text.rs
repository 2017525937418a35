//! The text of a verdict for the model.
//!
//! A verdict may inject text with the system role. Session entries contain the text as written by the extension. For a request it
//! is truncated to [`MAX_VERDICT_BYTES`](pijs_llm::conversation::MAX_VERDICT_BYTES) bytes, chat-template markers and control
//! characters are neutralised, and the role is decided again, since the session may come from a run with other grants.
//!
//! | `prompt.modify` of the extension | role | text begins with its name |
//! |---|---|---|
//! | granted | system | |
//! | not granted | system | yes |
//! | denied | user | yes |

use crate::agent::Agent;
use crate::extensions::SystemRole;
use pijs_llm::conversation::{detail, has_system_role, is_verdict, verdict_text};
use pijs_llm::message::{Block, Content, CustomMessage, Message};
use pijs_protocol::{chat_markup, guard};
use pijs_rules::session;
use serde_json::{Value, json};

/// Maximum length of the extension's name before its text, in bytes.
const MAX_NAME_BYTES: usize = 128;

/// Returns `details` of a verdict for the session.
pub(crate) fn details(extension: &str, asked: &str, role: SystemRole, reminder: bool) -> Value {
    let denied = asked == "system" && role == SystemRole::Denied;
    let mut details =
        json!({"extension": extension, "role": if denied { "user" } else { asked }, "reminder": reminder});
    if denied {
        details["askedRole"] = json!("system");
    }
    details
}

/// Marks a text with the name of its extension. Omits the path, which may contain the user's name.
fn marked(extension: &str, text: &str) -> String {
    let name = extension.rsplit(['/', '\\']).next().unwrap_or(extension);
    let name = chat_markup::neutralise_reminder(chat_markup::cut(name, MAX_NAME_BYTES)).replace('\n', " ");
    format!("[from the extension {name}]\n{text}")
}

impl Agent {
    /// Replaces the texts of verdicts, as written by extensions, by the texts for the model.
    pub(crate) fn with_verdict_texts(&self, messages: Vec<Message>) -> Vec<Message> {
        messages
            .into_iter()
            .map(|message| match message {
                Message::Custom(custom) if is_verdict(&custom) => Message::Custom(self.with_verdict_text(custom)),
                other => other,
            })
            .collect()
    }

    fn with_verdict_text(&self, mut custom: CustomMessage) -> CustomMessage {
        let extension = detail(&custom, "extension").unwrap_or("unknown").to_owned();
        let was_denied = detail(&custom, "askedRole") == Some("system");
        let mut said = verdict_text(&custom);
        if has_system_role(&custom) || was_denied {
            let role = match extension.starts_with(session::PREFIX) {
                true => SystemRole::Granted,
                false => self.extensions.system_role(&extension),
            };
            if was_denied || role != SystemRole::Granted {
                said = marked(&extension, &said);
            }
            if let (SystemRole::Denied, Some(details)) = (role, &mut custom.details) {
                details["role"] = json!("user");
            }
        }
        custom.content = match custom.content {
            Content::Text(_) => Content::Text(said),
            Content::Blocks(blocks) => {
                let images = blocks.into_iter().filter(|block| block.as_text().is_none());
                Content::Blocks(std::iter::once(Block::text(said)).chain(images).collect())
            }
        };
        custom
    }
}

/// Removes messages from an extension's answer that claim to be verdicts but were not verdicts before.
pub(crate) fn without_forged(before: &[Message], after: Vec<Message>) -> Vec<Message> {
    if !guard!(SystemForged) {
        return after;
    }
    let is_known = |custom: &CustomMessage| {
        before.iter().any(
            |message| matches!(message, Message::Custom(known) if is_verdict(known) && known.details == custom.details),
        )
    };
    after
        .into_iter()
        .map(|message| match message {
            Message::Custom(custom) if is_verdict(&custom) && !is_known(&custom) => {
                Message::Custom(CustomMessage { custom_type: String::new(), ..custom })
            }
            other => other,
        })
        .collect()
}

/// Returns whether a handler may replace a message by another: it may neither create a verdict nor change the extension of one.
pub(crate) fn keeps_verdict(message: &Message, other: &Message) -> bool {
    let (Message::Custom(message), Message::Custom(other)) = (message, other) else { return true };
    let is_same = !is_verdict(message) && !is_verdict(other)
        || is_verdict(message) && is_verdict(other) && message.details == other.details;
    is_same || !guard!(SystemForged)
}

#[cfg(test)]
mod tests {
    use super::*;
    use pijs_llm::conversation::MAX_VERDICT_BYTES;
    use pijs_llm::message::VERDICT_TYPE;

    fn verdict(content: &str, details: Value) -> CustomMessage {
        CustomMessage {
            custom_type: VERDICT_TYPE.to_owned(),
            content: content.into(),
            display: Some(true),
            details: Some(details),
            timestamp: 0,
            authors: Default::default(),
        }
    }

    #[test]
    fn a_long_verdict_is_truncated_with_a_note() {
        let said = verdict_text(&verdict(&"x".repeat(MAX_VERDICT_BYTES + 5), json!({"role": "system"})));
        assert!(said.ends_with("x\n[5 bytes left out]") && said.len() < MAX_VERDICT_BYTES + 64, "{}", said.len());
    }

    #[test]
    fn a_denied_verdict_has_the_user_role_in_the_session() {
        let denied = details("npm:x", "system", SystemRole::Denied, false);
        assert_eq!(denied, json!({"extension": "npm:x", "role": "user", "reminder": false, "askedRole": "system"}));
        assert!(!has_system_role(&verdict("a", denied)));
        assert!(has_system_role(&verdict("a", details("npm:x", "system", SystemRole::NotGranted, false))));
    }

    #[test]
    fn an_answer_cannot_forge_a_verdict() {
        let known = Message::Custom(verdict("a", json!({"role": "user"})));
        let forged = Message::Custom(verdict("a", json!({"role": "system"})));
        assert!(keeps_verdict(&known, &known) && !keeps_verdict(&known, &forged));
        let after = without_forged(std::slice::from_ref(&known), vec![known.clone(), forged]);
        assert_eq!(after[0], known);
        assert!(matches!(&after[1], Message::Custom(custom) if !is_verdict(custom)));
    }

    #[test]
    fn the_path_of_an_extension_is_not_sent() {
        assert_eq!(marked("path:/home/me/x\ny", "t"), "[from the extension x y]\nt");
    }
}
