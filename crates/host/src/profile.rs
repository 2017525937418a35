//! Reproduces the version of pi that an extension sees, where versions differ.
//!
//! Code that depends on the version asks the profile a question; versions are never compared elsewhere. In a realm the same
//! profile is the fact `profile`, read through `pi:pi/profile`.

use pijs_node_compat::events::STREAM_TEXT;
use serde_json::{Map, Value};
use std::fmt;
use std::str::FromStr;

/// A version of pi.
///
/// ```
/// use pijs_host::PiProfile;
/// let profile: PiProfile = "0.73".parse()?;
/// assert_eq!(profile.version(), "0.73.1");
/// assert!(!profile.fires("agent_settled") && PiProfile::default().fires("agent_settled"));
/// # Ok::<(), pijs_host::UnknownProfile>(())
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum PiProfile {
    /// pi 0.87.1.
    #[default]
    Current,
    /// pi 0.73.1, the last one under `@mariozechner`.
    Legacy,
}

/// All events of 0.73.1, sorted.
const LEGACY_EVENTS: &[&str] = &[
    "after_provider_response",
    "agent_end",
    "agent_start",
    "before_agent_start",
    "before_provider_request",
    "context",
    "input",
    "message_end",
    "message_start",
    "message_update",
    "model_select",
    "resources_discover",
    "session_before_compact",
    "session_before_fork",
    "session_before_switch",
    "session_before_tree",
    "session_compact",
    "session_shutdown",
    "session_start",
    "session_tree",
    "thinking_level_select",
    "tool_call",
    "tool_execution_end",
    "tool_execution_start",
    "tool_execution_update",
    "tool_result",
    "turn_end",
    "turn_start",
    "user_bash",
];

/// Events for which the loop of 0.73.1 does not wait: it continues while handlers run, one event after the other. In 0.73.1 that
/// includes `message_end`, whose answer takes effect only if it comes in time; PiJS awaits that event, so that its answer always
/// takes effect.
const QUEUED: &[&str] = &[
    "agent_end",
    "agent_start",
    "message_start",
    "message_update",
    "tool_execution_end",
    "tool_execution_start",
    "tool_execution_update",
    "turn_end",
    "turn_start",
];

/// Members of events that 0.73.1 does not have, by event; changes to them have no effect there.
const LATER_MEMBERS: &[(&str, &[&str])] =
    &[("turn_end", &["context", "continue", "entries", "messageEntryId", "outcome", "toolResultEntryIds"])];
/// Members of `systemPromptOptions` in `before_agent_start` that 0.73.1 does not have.
const LATER_OPTIONS: &[&str] = &["forceSystemPrompt", "sections", "toolGuidelines"];

impl PiProfile {
    /// Returns the version, as in `VERSION` of pi.
    pub fn version(self) -> &'static str {
        match self {
            Self::Current => "0.87.1",
            Self::Legacy => "0.73.1",
        }
    }

    /// Returns whether this version emits an event; `stream_text` belongs to PiJS and is always emitted.
    pub fn fires(self, event: &str) -> bool {
        self == Self::Current || event == STREAM_TEXT || LEGACY_EVENTS.binary_search(&event).is_ok()
    }

    /// Returns whether the loop continues while handlers of this event run.
    pub fn queues(self, event: &str) -> bool {
        self == Self::Legacy && QUEUED.contains(&event)
    }

    /// Returns whether `pi`, contexts and listeners of the bus outlive `/reload`.
    pub fn survives_reload(self) -> bool {
        self == Self::Legacy
    }

    /// Returns whether modules stay loaded for the next session, in which their factories run again.
    pub fn keeps_modules(self) -> bool {
        self == Self::Current
    }

    /// Returns whether handlers of `user_bash` also get commands of a program (`bash` of RPC mode), not only those of the user.
    pub fn tells_commands_of_programs(self) -> bool {
        self == Self::Current
    }

    /// Returns whether handlers get the system messages, which contain the prompt and the tools.
    pub fn hears_system_messages(self) -> bool {
        self == Self::Current
    }

    /// Removes the members that this version lacks from an event.
    pub(crate) fn trim(self, event: &str, payload: &mut Map<String, Value>) {
        if self == Self::Current {
            return;
        }
        for (_, members) in LATER_MEMBERS.iter().filter(|(name, _)| *name == event) {
            members.iter().for_each(|member| drop(payload.shift_remove(*member)));
        }
        if let Some(Value::Object(options)) = payload.get_mut("systemPromptOptions") {
            LATER_OPTIONS.iter().for_each(|member| drop(options.shift_remove(*member)));
        }
    }
}

impl fmt::Display for PiProfile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.version())
    }
}

/// Error for an unknown profile name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownProfile(String);

impl fmt::Display for UnknownProfile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unknown profile {:?}: use 0.87 or 0.73", self.0)
    }
}

impl std::error::Error for UnknownProfile {}

impl FromStr for PiProfile {
    type Err = UnknownProfile;

    /// Parses `0.73` or `0.73.1`, `0.87` or `0.87.1`.
    fn from_str(name: &str) -> Result<Self, UnknownProfile> {
        match name {
            "0.73" | "0.73.1" => Ok(Self::Legacy),
            "0.87" | "0.87.1" => Ok(Self::Current),
            _ => Err(UnknownProfile(name.to_owned())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn events_of_an_older_pi_are_some_of_the_newer_one_s() {
        assert!(LEGACY_EVENTS.is_sorted());
        assert_eq!(LEGACY_EVENTS.len(), 29);
        for event in LEGACY_EVENTS {
            assert!(pijs_node_compat::events::is_known(event), "{event}");
        }
        assert!(QUEUED.iter().all(|event| LEGACY_EVENTS.contains(event)));
        assert!(PiProfile::Legacy.fires("stream_text") && !PiProfile::Legacy.fires("nonsense"));
    }

    #[test]
    fn what_came_later_is_taken_out() {
        let shown = |profile: PiProfile, event: &str| {
            let payload = json!({"message": 1, "entries": [], "systemPromptOptions": {"cwd": "/", "sections": {}}});
            let mut payload = payload.as_object().expect("an object").clone();
            profile.trim(event, &mut payload);
            Value::Object(payload)
        };
        let options = json!({"cwd": "/"});
        assert_eq!(shown(PiProfile::Legacy, "turn_end"), json!({"message": 1, "systemPromptOptions": options}));
        assert_eq!(shown(PiProfile::Legacy, "other")["entries"], json!([]));
        assert_eq!(shown(PiProfile::Current, "turn_end")["systemPromptOptions"]["sections"], json!({}));
    }

    #[test]
    fn a_name_of_no_profile_is_told_which_there_are() {
        let error = "0.5".parse::<PiProfile>().expect_err("there is no such profile");
        assert!(error.to_string().contains("0.73"), "{error}");
        assert_eq!("0.87.1".parse(), Ok(PiProfile::Current));
    }
}
