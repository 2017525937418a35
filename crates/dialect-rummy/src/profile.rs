//! Describes the names that one generation of rummy uses, as data.
//!
//! Generations differ mostly in names: the names of visibility levels, the path of a log entry, the hooks of proposals, budget
//! and verdict. The store uses the names of 2.x only; an older profile translates at the facade.

use crate::entry::Visibility;
use serde::Serialize;

/// How a hook is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum HookKind {
    /// Subscribers are called and awaited one after the other; their results are ignored.
    Event,
    /// A value is passed from subscriber to subscriber, each of which may change it.
    Filter,
    /// One plugin assigns a function to the hook tree, which is called.
    Call,
}

/// A hook of the hook tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Hook {
    /// Dotted path in the hook tree.
    pub name: &'static str,
    /// The way in which the hook is called.
    pub kind: HookKind,
}

const fn event(name: &'static str) -> Hook {
    Hook { name, kind: HookKind::Event }
}

const fn filter(name: &'static str) -> Hook {
    Hook { name, kind: HookKind::Filter }
}

const fn call(name: &'static str) -> Hook {
    Hook { name, kind: HookKind::Call }
}

/// A predefined row of the scheme registry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct SchemeRow {
    /// Scheme; `file` for bare paths.
    pub name: &'static str,
    /// Whether the model may see entries of this scheme.
    pub model_visible: bool,
    /// Category: `data`, `logging`, `unknown` or `prompt`.
    pub category: &'static str,
    /// The writers that may write entries of this scheme.
    pub writable_by: &'static [&'static str],
}

const fn scheme(name: &'static str, category: &'static str, writable_by: &'static [&'static str]) -> SchemeRow {
    SchemeRow { name, model_visible: true, category, writable_by }
}

const fn hidden(name: &'static str, writable_by: &'static [&'static str]) -> SchemeRow {
    SchemeRow { name, model_visible: false, category: "logging", writable_by }
}

/// The table of rummy's specification, "Schemes, Status & Visibility"; plugins replace rows when they register.
const SCHEMES: &[SchemeRow] = &[
    scheme("file", "data", &["model", "plugin"]),
    scheme("known", "data", &["model", "plugin"]),
    scheme("skill", "data", &["model", "plugin"]),
    scheme("http", "data", &["model", "plugin"]),
    scheme("https", "data", &["model", "plugin"]),
    scheme("sh", "data", &["model", "plugin"]),
    scheme("env", "data", &["model", "plugin"]),
    scheme("unknown", "unknown", &["model", "plugin"]),
    scheme("prompt", "prompt", &["plugin"]),
    scheme("log", "logging", &["system", "plugin", "model"]),
    scheme("update", "logging", &["model", "plugin"]),
    scheme("error", "logging", &["model", "plugin"]),
    hidden("run", &["system", "plugin", "client"]),
    hidden("tool", &["system"]),
    hidden("instructions", &["system"]),
    hidden("system", &["system"]),
    hidden("reasoning", &["system"]),
    hidden("model", &["system"]),
    hidden("user", &["system"]),
    hidden("assistant", &["system"]),
    hidden("content", &["system"]),
];

/// Names of one generation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Profile {
    /// `2.x` or `0.5`.
    pub name: &'static str,
    /// Version of the JSON-RPC protocol.
    pub protocol: &'static str,
    /// Names of visible, summarized and archived, which the view hooks use as well.
    pub visibilities: [&'static str; 3],
    /// Whether rows have `status` and `fidelity` instead of `state`, `outcome` and `visibility`.
    pub has_numeric_status: bool,
    /// Template for the path of an action's log entry, with `{turn}`, `{action}` and `{slug}`.
    pub log_path: &'static str,
    /// Hooks of a proposal, in the order of its lifecycle.
    pub proposal_hooks: &'static [Hook],
    /// Hooks before a request to the model. A hook of an older minor version is called after the filter that replaced it.
    pub before_dispatch: &'static [Hook],
    /// Hooks after all commands were dispatched.
    pub after_dispatch: &'static [Hook],
    /// Hooks that decide whether the loop continues.
    pub verdict_hooks: &'static [Hook],
    /// Tags that the model may write.
    pub tools: &'static [&'static str],
    /// Statuses of an update that end a loop.
    pub terminal_statuses: &'static [i64],
    /// The initial rows of the scheme registry.
    pub schemes: &'static [SchemeRow],
}

impl Profile {
    const V2: Self = Self {
        name: "2.x",
        protocol: "2.0.0",
        visibilities: ["visible", "summarized", "archived"],
        has_numeric_status: false,
        log_path: "log://turn_{turn}/{action}/{slug}",
        proposal_hooks: &[
            event("proposal.prepare"),
            event("proposal.pending"),
            filter("proposal.accepting"),
            filter("proposal.content"),
            event("proposal.accepted"),
            event("proposal.rejected"),
        ],
        before_dispatch: &[filter("turn.beforeDispatch"), call("budget.enforce")],
        after_dispatch: &[event("turn.dispatched"), call("budget.postDispatch")],
        verdict_hooks: &[filter("turn.verdict"), call("error.verdict")],
        tools: &["think", "get", "set", "env", "sh", "rm", "cp", "mv", "ask_user", "update", "search", "skill"],
        terminal_statuses: &[200, 204, 422],
        schemes: SCHEMES,
    };

    const V0_5: Self = Self {
        name: "0.5",
        protocol: "1.0.0",
        visibilities: ["promoted", "demoted", "archived"],
        has_numeric_status: true,
        log_path: "{action}://turn_{turn}/{slug}",
        proposal_hooks: &[event("turn.proposing"), event("turn.proposal")],
        before_dispatch: &[call("budget.enforce")],
        after_dispatch: &[call("budget.postDispatch")],
        verdict_hooks: &[],
        tools: &[
            "think",
            "unknown",
            "known",
            "get",
            "set",
            "env",
            "sh",
            "rm",
            "cp",
            "mv",
            "ask_user",
            "update",
            "summarize",
            "search",
        ],
        ..Self::V2
    };

    /// Returns the profile of the generation 2.0 to 2.3.
    pub fn v2() -> Self {
        Self::V2
    }

    /// Returns the profile of rummy 0.5.0.
    pub fn v0_5() -> Self {
        Self::V0_5
    }

    /// Returns the profile with this name.
    pub fn named(name: &str) -> Option<Self> {
        [Self::v2(), Self::v0_5()].into_iter().find(|profile| profile.name == name)
    }

    /// Parses a visibility name of this generation. Every generation accepts the names of 2.x.
    pub fn visibility(&self, word: &str) -> Option<Visibility> {
        let own = self.visibilities.iter().position(|one| *one == word).map(|place| Visibility::ALL[place]);
        own.or_else(|| match word {
            "full" => Some(Visibility::Visible),
            "summary" | "index" => Some(Visibility::Summarized),
            "archive" => Some(Visibility::Archived),
            _ => Visibility::parse(word).ok(),
        })
    }

    /// Returns this generation's name of a visibility.
    pub fn word(&self, visibility: Visibility) -> &'static str {
        self.visibilities[visibility as usize]
    }

    /// Returns the visibility of an entry after a full write, if the caller does not pass one.
    pub fn default_visibility(&self, scheme: &str, category: &str) -> Visibility {
        if self.has_numeric_status || scheme == "skill" || matches!(category, "prompt" | "unknown" | "logging") {
            Visibility::Visible
        } else {
            Visibility::Summarized
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn visibility_words_depend_on_the_generation() {
        let (new, old) = (Profile::v2(), Profile::v0_5());
        assert_eq!(new.visibility("summarized"), Some(Visibility::Summarized));
        assert_eq!(old.visibility("demoted"), Some(Visibility::Summarized));
        assert_eq!(old.visibility("promoted"), Some(Visibility::Visible));
        assert_eq!(old.visibility("full"), Some(Visibility::Visible));
        assert_eq!(new.visibility("promoted"), None);
        assert_eq!(old.word(Visibility::Archived), "archived");
        assert_eq!(Profile::named("2.x"), Some(new));
        assert_eq!(Profile::named("3.x"), None);
    }

    #[test]
    fn a_profile_is_data_for_the_plugin_runtime() {
        let json = serde_json::to_value(Profile::v2()).expect("a profile is JSON");
        assert_eq!(json["visibilities"], serde_json::json!(["visible", "summarized", "archived"]));
        assert_eq!(json["beforeDispatch"][0], serde_json::json!({"name": "turn.beforeDispatch", "kind": "filter"}));
    }
}
