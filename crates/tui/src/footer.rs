//! The built-in footer: folder, branch, session name and usage. A footer of an extension replaces it.

use pijs_llm::message::{Message, Usage};
use pijs_session_store::{Body, Session};
use pijs_terminal::layout::{clamp, width};
use serde_json::Value;
use std::path::Path;

/// Data of the footer.
#[derive(Debug, Default)]
pub(super) struct FooterData {
    /// Working directory.
    pub(super) place: String,
    /// Name of the session.
    pub(super) name: Option<String>,
    pub(super) spent: SessionUsage,
    /// Used percentage of the context window, if known, and size of the window in tokens.
    pub(super) window: Option<(Option<f64>, u64)>,
    /// Whether compaction is automatic.
    pub(super) compacts: bool,
}

/// Tokens and cost in dollars of all replies of a session.
#[derive(Debug, Default, Clone, Copy, PartialEq)]
pub(super) struct SessionUsage {
    input: u64,
    output: u64,
    cache_read: u64,
    cache_write: u64,
    cost: f64,
}

impl SessionUsage {
    /// Returns the usage of a session on all branches.
    pub(super) fn of(session: &Session) -> Self {
        let mut spent = Self::default();
        for entry in session.entries().filter_map(Result::ok) {
            if let Body::Message { message: Message::Assistant(reply) } = &entry.body {
                spent.add(&reply.usage);
            }
        }
        spent
    }

    pub(super) fn add(&mut self, usage: &Usage) {
        self.input = self.input.saturating_add(usage.input);
        self.output = self.output.saturating_add(usage.output);
        self.cache_read = self.cache_read.saturating_add(usage.cache_read);
        self.cache_write = self.cache_write.saturating_add(usage.cache_write);
        self.cost += usage.cost.total;
    }
}

/// Returns a folder with `~` for the home folder.
pub(super) fn place(cwd: &Path, home: &Path) -> String {
    match cwd.strip_prefix(home) {
        Ok(rest) if rest.as_os_str().is_empty() => "~".to_owned(),
        Ok(rest) => format!("~/{}", rest.display()),
        Err(_) => cwd.display().to_string(),
    }
}

impl FooterData {
    /// Parses the result of `ctx.getContextUsage()`.
    pub(super) fn read_window(&mut self, usage: &Value) {
        self.window = usage["contextWindow"].as_u64().map(|window| (usage["percent"].as_f64(), window));
    }

    /// Returns the line: folder on the left, usage on the right.
    pub(super) fn line(&self, branch: Option<&str>, columns: usize) -> String {
        let branch = branch.map(|branch| format!(" ({branch})")).unwrap_or_default();
        let name = self.name.as_ref().map(|name| format!(" • {name}")).unwrap_or_default();
        let right = self.figures();
        let room = columns.saturating_sub(width(&right) + 2);
        let left = clamp(&pijs_terminal::line(&pijs_terminal::plain(&format!("{}{branch}{name}", self.place))), room);
        let gap = columns.saturating_sub(width(&left) + width(&right));
        format!("\u{1b}[2m{left}{}{right}\u{1b}[0m", " ".repeat(gap))
    }

    fn figures(&self) -> String {
        let SessionUsage { input, output, cache_read, cache_write, cost } = self.spent;
        let mut parts: Vec<String> = [("↑", input), ("↓", output), ("R", cache_read), ("W", cache_write)]
            .into_iter()
            .filter(|(_, tokens)| *tokens > 0)
            .map(|(mark, tokens)| format!("{mark}{}", short(tokens)))
            .collect();
        if cost > 0.0 {
            parts.push(format!("${cost:.3}"));
        }
        if let Some((percent, window)) = self.window {
            let percent = percent.map_or_else(|| "?".to_owned(), |percent| format!("{percent:.1}%"));
            let auto = if self.compacts { " (auto)" } else { "" };
            parts.push(format!("{percent}/{}{auto}", short(window)));
        }
        parts.join(" ")
    }
}

/// Formats a number of tokens briefly, like pi.
fn short(tokens: u64) -> String {
    let in_units = |unit: f64| tokens as f64 / unit;
    match tokens {
        0..1_000 => tokens.to_string(),
        1_000..10_000 => format!("{:.1}k", in_units(1e3)),
        10_000..1_000_000 => format!("{:.0}k", in_units(1e3)),
        1_000_000..10_000_000 => format!("{:.1}M", in_units(1e6)),
        _ => format!("{:.0}M", in_units(1e6)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_footer_shows_folder_and_usage() {
        let mut standing = FooterData { place: "~/project".to_owned(), compacts: true, ..FooterData::default() };
        let shown = |standing: &FooterData, branch| pijs_terminal::plain(&standing.line(branch, 50));
        assert_eq!(shown(&standing, None).trim_end(), "~/project");
        standing.spent.add(&Usage { input: 1_234, output: 20, ..Usage::default() });
        standing.read_window(&json!({"percent": 1.26, "contextWindow": 200_000, "tokens": 3}));
        assert_eq!(shown(&standing, Some("main")), "~/project (main)        ↑1.2k ↓20 1.3%/200k (auto)");
        standing.read_window(&json!({"percent": null, "contextWindow": 1_048_576}));
        standing.name = Some("a \u{1b}[2Jname\nthat is rather long for it".to_owned());
        assert_eq!(shown(&standing, None), "~/project • a name that …  ↑1.2k ↓20 ?/1.0M (auto)");
        standing.read_window(&json!(null));
        assert_eq!(standing.window, None);
    }

    #[test]
    fn a_folder_below_home_is_abbreviated() {
        for (cwd, expected) in [("/home/me", "~"), ("/home/me/a/b", "~/a/b"), ("/home/mean", "/home/mean")] {
            assert_eq!(place(Path::new(cwd), Path::new("/home/me")), expected);
        }
    }
}
