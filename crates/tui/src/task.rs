//! Work that the screen requests from the session's thread.

use super::completion_request::CompletionRequest;
use super::picker::ListKind;
use super::view::ComponentId;
use pijs_protocol::ExtensionId;
use serde_json::Value;

/// Work for the session's thread.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum UiTask {
    /// Handle text that the user submits, now or at the end of the run. `by` is the author, `None` for the user.
    Say { text: String, later: bool, by: Option<ExtensionId> },
    /// Abort the run.
    Abort,
    /// Run the shortcut of an extension.
    Shortcut(String),
    /// Request suggestions for the text of the editor.
    Complete(CompletionRequest),
    /// Request suggestions from the providers below one, for that provider.
    Suggest { number: u64, request: CompletionRequest, below: Option<ComponentId> },
    /// Let a provider insert the chosen suggestion.
    Apply { provider: ComponentId, request: CompletionRequest, item: Value, prefix: String },
    /// Change to the next thinking level.
    CycleThinking,
    /// Change to the next or previous model.
    CycleModel { back: bool },
    /// Show a built-in list.
    Pick(ListKind),
    /// Apply the choice from a list.
    Picked(ListKind, String),
    /// Handle a list that was closed without a choice.
    Unpicked,
    /// Store the key of a provider.
    Entered { provider: String, key: String },
    /// Edit the text in the external editor.
    EditOutside,
    /// Copy the last reply to the clipboard.
    Copy,
    /// Move queued messages back into the editor.
    Unqueue,
    /// Publish whether results are expanded or folded.
    Expanded(bool),
    /// Render a component with this width. `fresh` discards the component's caches.
    Render { id: ComponentId, columns: usize, focused: bool, fresh: bool },
    /// Pass a key to a component.
    Key(ComponentId, String),
    /// Pass a key to listeners.
    Listen { data: String, listeners: Vec<ComponentId> },
    /// Set the text of an extension's editor.
    EditorText(ComponentId, String),
    /// Set or paste the text of another extension into an editor. Afterwards it counts as delivered.
    Handed { to: ComponentId, text: String, is_paste: bool },
    /// Render a block of the transcript.
    Draw { block: u64, columns: usize, expanded: bool },
    /// End the session.
    Exit,
    /// Suspend the program.
    Suspend,
}
