//! Renders a session as an HTML page, for `export_html`.

use pijs_llm::message::{Block, Message};
use pijs_runtime::export::readable;
use pijs_session_store::{Body, Entry};
use std::fmt::Write as _;

const HEAD: &str = "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<style>\nbody { font: 15px/1.5 system-ui, sans-serif; max-width: 52rem; margin: 2rem auto; padding: 0 1rem }\nsection { border-left: 3px solid #bbb; margin: 1rem 0; padding: 0 1rem }\n.user { border-color: #36c } .assistant { border-color: #393 }\nh2 { font-size: .8rem; color: #666; margin: 0 } pre { white-space: pre-wrap; overflow-wrap: anywhere }\n</style>\n";

/// Returns a page with the messages of the current branch.
pub(super) fn page(title: &str, branch: &[&Entry]) -> String {
    let mut page = format!("{HEAD}<title>{0}</title>\n<h1>{0}</h1>\n", escaped(title));
    for entry in branch {
        let (class, name, text) = match &entry.body {
            Body::Message { message } => described(message),
            Body::CustomMessage { custom_type, content, display: Some(true), .. } => {
                ("custom", custom_type.clone(), content.text())
            }
            Body::Compaction { summary, .. } => ("summary", "compaction".to_owned(), summary.clone()),
            Body::BranchSummary { summary, .. } => ("summary", "branch summary".to_owned(), summary.clone()),
            _ => continue,
        };
        // Writing to a string does not fail.
        let _ = writeln!(
            page,
            "<section class=\"{class}\">\n<h2>{}</h2>\n<pre>{}</pre>\n</section>",
            escaped(&name),
            escaped(&text)
        );
    }
    page.push_str("</html>\n");
    readable(&page)
}

fn described(message: &Message) -> (&'static str, String, String) {
    match message {
        Message::User(user) => ("user", "user".to_owned(), user.content.text()),
        Message::Assistant(reply) => ("assistant", "assistant".to_owned(), blocks(&reply.content)),
        Message::ToolResult(result) => ("tool", result.tool_name.clone(), result.content.text()),
        Message::BashExecution(run) => ("tool", format!("$ {}", run.command), run.output.clone()),
        other => ("other", other.role().to_owned(), String::new()),
    }
}

fn blocks(blocks: &[Block]) -> String {
    let shown = blocks.iter().filter_map(|block| match block {
        Block::ToolCall(call) => Some(format!("{} {}", call.name, call.arguments)),
        block => block.as_text().map(str::to_owned),
    });
    shown.collect::<Vec<_>>().join("\n\n")
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_cannot_become_markup() {
        assert_eq!(escaped("<script>&\"'"), "&lt;script&gt;&amp;&quot;'");
        assert!(page("a<b", &[]).contains("<title>a&lt;b</title>"));
    }
}
