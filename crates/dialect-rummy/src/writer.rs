//! Defines the writers of entries, and decides which of them a call may use.
//!
//! The path of a call determines its ceiling: the model's for a handler that acts for the model, the client's for a JSON-RPC
//! call, the plugin's for a hook, and the system's for the host. A call requests a writer at or below its ceiling, so no argument
//! raises the authority of a call.

use crate::entry::words;
use crate::error::StoreError;

words! {
    /// A writer of entries. The variants are ordered: a caller may request any writer up to its ceiling.
    Writer, "writer" {
        /// The model, through tags in its reply.
        Model = "model",
        /// A client of the JSON-RPC interface.
        Client = "client",
        /// Hooks and handlers of plugins.
        Plugin = "plugin",
        /// The host.
        System = "system",
    }
}

/// Whether rummy's documents or its code have precedence where they disagree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Conduct {
    /// The documents: every verb that changes content or lifecycle is checked, the ceiling holds, and a change of visibility does
    /// not change the state.
    #[default]
    Strict,
    /// The code: only full writes are checked, a call may act as any writer, promotion by pattern sets entries to resolved, and
    /// demotion by pattern archives them.
    Faithful,
}

impl Writer {
    /// Returns the writer of a call that requests `requested` under a ceiling; without a request, the lower of plugin and
    /// ceiling.
    ///
    /// Fails if the request is above the ceiling, unless the conduct is [`Conduct::Faithful`].
    pub fn under(requested: Option<Self>, ceiling: Self, conduct: Conduct) -> Result<Self, StoreError> {
        match requested {
            None if conduct == Conduct::Faithful => Ok(Self::Plugin),
            None => Ok(Self::Plugin.min(ceiling)),
            Some(writer) if writer <= ceiling || conduct == Conduct::Faithful => Ok(writer),
            Some(writer) => Err(StoreError::Ceiling { writer, ceiling }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Follows rummy's specification, "Four Writer Tiers": a caller may lower its own tier, but not raise it.
    #[test]
    fn a_ceiling_is_lowered_and_never_raised() {
        use Writer::{Client, Model, Plugin, System};
        let strict = |requested, ceiling| Writer::under(requested, ceiling, Conduct::Strict).ok();
        assert_eq!(strict(None, System), Some(Plugin));
        assert_eq!(strict(None, Model), Some(Model));
        assert_eq!(strict(Some(Model), Plugin), Some(Model));
        assert_eq!(strict(Some(Plugin), Plugin), Some(Plugin));
        assert_eq!(strict(Some(System), Plugin), None);
        assert_eq!(strict(Some(Plugin), Client), None);
        assert_eq!(Writer::under(Some(System), Model, Conduct::Faithful).ok(), Some(System));
    }
}
