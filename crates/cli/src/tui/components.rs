//! What extensions draw: components and renderers live in their realms, and are asked here.

use super::layers::ComponentId;
use super::port::texts;
use super::screen::Screen;
use super::transcript::{Call, Content, Style};
use super::view::Work;
use crate::renderers::{CallState, Renderer, call_context, options};
use pijs_host::{CallbackOutcome, Host};
use pijs_protocol::{EntryIndex, ExtensionId, Handle};
use serde_json::{Value, json};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use tokio::sync::mpsc;

/// Asks extensions, each in the order in which it is asked; one that hangs holds up only itself.
#[derive(Clone)]
pub(super) struct Components(Rc<Inner>);

struct Inner {
    host: Host,
    screen: Screen,
    cwd: PathBuf,
    lanes: RefCell<BTreeMap<ExtensionId, mpsc::UnboundedSender<Work>>>,
}

impl Components {
    pub(super) fn new(host: Host, screen: Screen, cwd: PathBuf) -> Self {
        Self(Rc::new(Inner { host, screen, cwd, lanes: RefCell::default() }))
    }

    /// Takes what is its own, and gives back the rest.
    pub(super) fn take(&self, work: Work) -> Option<Work> {
        match &work {
            Work::Render((extension, _), _) | Work::Key((extension, _), _) => {
                let extension = extension.clone();
                self.lane(&extension, work);
                None
            }
            Work::Draw { block, columns, expanded } => {
                let (components, block, columns, expanded) = (self.clone(), *block, *columns, *expanded);
                tokio::task::spawn_local(async move { components.draw(block, columns, expanded).await });
                None
            }
            _ => Some(work),
        }
    }

    fn lane(&self, extension: &ExtensionId, work: Work) {
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
        // A lane lives as long as the session.
        let _ = lane.send(work);
    }

    async fn serve(&self, work: Work) {
        match work {
            Work::Render(id, width) => {
                let answer = self.ask(&id, json!({"type": "render", "width": width})).await;
                let lines = answer.as_ref().and_then(|answer| answer["lines"].as_array()).map(|lines| texts(lines));
                self.0.screen.change(|view| view.rendered(&id, lines));
            }
            Work::Key(id, data) => {
                self.ask(&id, json!({"type": "input", "data": data})).await;
                self.0.screen.change(|view| view.dirty(&id));
            }
            _ => {}
        }
    }

    async fn ask(&self, (extension, handle): &ComponentId, request: Value) -> Option<Value> {
        match self.0.host.call_back(extension, EntryIndex(0), Handle(*handle), vec![request]).await {
            CallbackOutcome::Returned(answer) => answer,
            CallbackOutcome::Threw(error) => {
                let text = format!("{extension}: a component failed: {}", error.message);
                self.0.screen.change(|view| view.say(Style::Error, &text));
                None
            }
            CallbackOutcome::Ended(_) | CallbackOutcome::Gone => None,
        }
    }

    /// Has a block of the transcript drawn, where an extension draws such.
    async fn draw(&self, id: u64, columns: usize, expanded: bool) {
        let wanted = self.0.screen.change(|view| view.transcript.wanted(id, columns, expanded));
        let Some(content) = wanted else { return };
        let (host, width) = (&self.0.host, u32::try_from(columns).unwrap_or(80));
        let drawn = match content {
            Content::Message(message) => {
                let renderer = Renderer::of_message(host, message["customType"].as_str().unwrap_or_default());
                [self.lines(renderer, vec![message, options(expanded)], width).await, None]
            }
            Content::Entry(entry) => {
                let renderer = Renderer::of_entry(host, entry["customType"].as_str().unwrap_or_default());
                [self.lines(renderer, vec![entry, options(expanded)], width).await, None]
            }
            Content::Call(call) => self.draw_call(&call, &self.0.cwd, width, expanded).await,
            Content::Text(..) | Content::Reply(_) => return,
        };
        self.0.screen.change(|view| view.transcript.drawn(id, drawn));
    }

    async fn draw_call(&self, call: &Call, cwd: &Path, width: u32, expanded: bool) -> [Option<Vec<String>>; 2] {
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

    /// Nothing where nobody draws, or the one who does fails: then the block's own text stands, as under pi.
    async fn lines(&self, renderer: Option<Renderer>, args: Vec<Value>, width: u32) -> Option<Vec<String>> {
        let lines = renderer?.draw(&self.0.host, args, width).await.ok()??;
        Some(texts(lines.as_array()?))
    }
}
