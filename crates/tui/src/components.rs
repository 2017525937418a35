//! Renders components and messages of extensions by calling their realms.
//!
//! Components stay in their realm, and the host requests their lines (`pi:pi/components`). The host decides on position, order,
//! focus and keys, because several extensions share one screen. The editor of an extension receives the keys, and returns its
//! text and the keys that it leaves to pi. An action is accepted only while the editor handles the user's key for it. A submitted
//! line is accepted only after Enter, and only if the extension may send such a line by itself (`session.inject`,
//! `session.control` for `/`, `exec` for `!`). A listener to raw keys receives the keys of the editor and of its own components.
//! The host reports a component that throws, and removes it.

use super::clip::clipped;
use super::input::{self, marked};
use super::picture::picture;
use super::screen::Screen;
use super::task::UiTask;
use super::transcript::{BlockContent, Style, ToolBlock};
use super::view::ComponentId;
use pijs_host::{CallbackOutcome, Host};
use pijs_protocol::{EntryIndex, ExtensionId, Handle};
use pijs_runtime::renderers::{CallState, Renderer, call_context, options};
use serde_json::{Value, json};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, Instant};
use tokio::sync::mpsc;

/// Timeout of a listener for one key: far longer than a working listener needs, and short enough to continue typing if one hangs.
const LISTENER_TIMEOUT: Duration = Duration::from_secs(1);
/// Maximum size in bytes of a Markdown transformer's result; less of it is shown.
const LONGEST_CHANGED: usize = 4 << 20;

/// Dispatches work to extensions, in order for each extension. An extension that hangs does not block others.
#[derive(Clone)]
pub(super) struct Components(Rc<ComponentHost>);

struct ComponentHost {
    host: Host,
    screen: Screen,
    cwd: PathBuf,
    lanes: RefCell<BTreeMap<ExtensionId, mpsc::UnboundedSender<UiTask>>>,
}

impl Components {
    pub(super) fn new(host: Host, screen: Screen, cwd: PathBuf) -> Self {
        Self(Rc::new(ComponentHost { host, screen, cwd, lanes: RefCell::default() }))
    }

    /// Takes work for extensions, and returns any other.
    pub(super) fn take(&self, work: UiTask) -> Option<UiTask> {
        match &work {
            UiTask::Render { id: (extension, _), .. }
            | UiTask::Key((extension, _), _)
            | UiTask::EditorText((extension, _), _)
            | UiTask::Handed { to: (extension, _), .. } => {
                let extension = extension.clone();
                self.lane(&extension, work);
                None
            }
            UiTask::Draw { block, columns, expanded } => {
                let (components, block, columns, expanded) = (self.clone(), *block, *columns, *expanded);
                tokio::task::spawn_local(async move { components.draw(block, columns, expanded).await });
                None
            }
            UiTask::Listen { data, listeners } => {
                let (components, data, listeners) = (self.clone(), data.clone(), listeners.clone());
                tokio::task::spawn_local(async move { components.listen(data, listeners).await });
                None
            }
            _ => Some(work),
        }
    }

    /// Passes a key to listeners, one after another. Each receives the result of the previous one.
    async fn listen(&self, data: String, listeners: Vec<ComponentId>) {
        let mut left = Some(data);
        for (extension, handle) in listeners {
            let Some(data) = left.take() else { break };
            let asked = self.0.host.call_back(&extension, EntryIndex(0), Handle(handle), vec![data.clone().into()]);
            left = match tokio::time::timeout(LISTENER_TIMEOUT, asked).await {
                Ok(CallbackOutcome::Returned(Some(answer))) => answer["data"].as_str().map(str::to_owned),
                // A listener that fails or times out does not change the key.
                _ => Some(data),
            };
        }
        let work = self.0.screen.change(|view| view.heard(left.as_deref(), Instant::now()));
        work.into_iter().for_each(|work| self.0.screen.ask(work));
    }

    fn lane(&self, extension: &ExtensionId, work: UiTask) {
        let mut lanes = self.0.lanes.borrow_mut();
        let lane = lanes.entry(extension.clone()).or_insert_with(|| {
            let (sender, mut works) = mpsc::unbounded_channel();
            let components = self.clone();
            tokio::task::spawn_local(async move {
                while let Some(work) = works.recv().await {
                    components.serve(work).await;
                }
            });
            sender
        });
        // The lane exists as long as the session.
        let _ = lane.send(work);
    }

    async fn serve(&self, work: UiTask) {
        match work {
            UiTask::Render { id, columns, focused, fresh } => {
                let mut request = json!({"type": "render", "width": columns, "focused": focused});
                if fresh {
                    request["fresh"] = true.into();
                }
                let answer = self.ask(&id, request).await;
                // Formatted before the screen is locked, because it may be large.
                let lines = answer.as_ref().and_then(|answer| Some(picture(answer["lines"].as_array()?, columns)));
                self.0.screen.change(|view| view.rendered(&id, answer.as_ref(), lines, columns));
            }
            UiTask::Key(id, data) => {
                let name = input::name(&data);
                self.0.screen.change(|view| view.editor.begin_handling(&id, name));
                self.ask(&id, json!({"type": "input", "data": data})).await;
                self.0.screen.change(|view| {
                    view.editor.end_handling();
                    view.pictures.dirty(&id);
                });
            }
            UiTask::Handed { to, text, is_paste } => {
                let size = text.len();
                let request = match is_paste {
                    true => json!({"type": "input", "data": marked(&text)}),
                    false => json!({"type": "text", "text": text}),
                };
                self.ask(&to, request).await;
                self.0.screen.change(|view| {
                    view.editor.delivered(size);
                    view.pictures.dirty(&to);
                });
            }
            UiTask::EditorText(id, text) => {
                self.ask(&id, json!({"type": "text", "text": text})).await;
                self.0.screen.change(|view| view.pictures.dirty(&id));
            }
            _ => {}
        }
    }

    async fn ask(&self, (extension, handle): &ComponentId, request: Value) -> Option<Value> {
        match self.0.host.call_back(extension, EntryIndex(0), Handle(*handle), vec![request]).await {
            CallbackOutcome::Returned(answer) => answer,
            CallbackOutcome::Threw(error) => {
                let id = (extension.clone(), *handle);
                self.0.screen.change(|view| view.component_failed(&id, &error.message));
                None
            }
            CallbackOutcome::Ended(_) | CallbackOutcome::Gone => None,
        }
    }

    /// Renders a block of the transcript with the extension's renderer, if there is one.
    async fn draw(&self, id: u64, columns: usize, expanded: bool) {
        let wanted = self.0.screen.change(|view| view.conversation.transcript.wanted(id, columns, expanded));
        let Some(content) = wanted else { return };
        let (host, width) = (&self.0.host, u32::try_from(columns).unwrap_or(80));
        let drawn = match content {
            BlockContent::Message(message) => {
                let renderer = Renderer::of_message(host, message["customType"].as_str().unwrap_or_default());
                [self.lines(renderer, vec![message, options(expanded)], width).await, None]
            }
            BlockContent::Entry(entry) => {
                let renderer = Renderer::of_entry(host, entry["customType"].as_str().unwrap_or_default());
                [self.lines(renderer, vec![entry, options(expanded)], width).await, None]
            }
            BlockContent::Call(call) => self.draw_call(&call, &self.0.cwd, width, expanded).await,
            BlockContent::Reply(pieces) => return self.transform(id, pieces, columns).await,
            BlockContent::Text(style, text) => return self.transform(id, vec![(style, text)], columns).await,
        };
        self.0.screen.change(|view| view.conversation.transcript.drawn(id, drawn));
    }

    /// Passes Markdown through the transformers of extensions, one after another. A transformer that fails is skipped.
    async fn transform(&self, id: u64, pieces: Vec<(Style, String)>, columns: usize) {
        let is_streaming = self.0.screen.read(|view| view.conversation.transcript.is_streaming(id));
        let transformers = Renderer::of_markdown(&self.0.host);
        let mut texts = Vec::new();
        for (style, mut text) in pieces {
            let kind = match style {
                Style::User => "user",
                Style::Thinking => "assistant-thinking",
                _ => "assistant",
            };
            let context = json!({"messageType": kind, "isStreaming": is_streaming, "availableWidth": columns});
            for Renderer { owner, handle } in &transformers {
                let args = vec![text.as_str().into(), context.clone()];
                let made = self.0.host.call_back(&owner.extension, owner.entry, *handle, args).await;
                if let CallbackOutcome::Returned(Some(Value::String(made))) = made {
                    text = clipped(&made, LONGEST_CHANGED).to_owned();
                }
            }
            texts.push(text);
        }
        self.0.screen.change(|view| view.conversation.transcript.changed(id, texts));
    }

    async fn draw_call(&self, call: &ToolBlock, cwd: &Path, width: u32, expanded: bool) -> [Option<Vec<String>>; 2] {
        let host = &self.0.host;
        let state = CallState { is_partial: !call.is_done, expanded, is_error: call.is_error };
        let context = call_context(&call.args, &call.id, cwd, state);
        let title = Renderer::of_tool(host, &call.name, "renderCall");
        let title = self.lines(title, vec![call.args.clone(), context.clone()], width).await;
        let Some(result) = call.result.clone() else { return [title, None] };
        let renderer = Renderer::of_tool(host, &call.name, "renderResult");
        let options = json!({"expanded": expanded, "isPartial": !call.is_done});
        let result = self.lines(renderer, vec![result, options, context], width).await;
        [title, result]
    }

    /// Returns the lines of a renderer. `None` if there is none or it fails; then the block's own text is shown, as in pi.
    async fn lines(&self, renderer: Option<Renderer>, args: Vec<Value>, width: u32) -> Option<Vec<String>> {
        let drawn = renderer?.draw(&self.0.host, args, width).await.ok()??;
        if drawn["failed"].is_string() {
            return None;
        }
        Some(picture(drawn["lines"].as_array()?, usize::try_from(width).unwrap_or(80)))
    }
}
