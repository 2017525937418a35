//! Assembles the messages of a turn, counts their cost, and shortens them to the budget.

use crate::error::RummyError;
use crate::run::{Loop, RunDriver};
use crate::turn::Turn;
use pijs_dialect_rummy::assemble::{ContextRow, Projection};
use pijs_dialect_rummy::budget::{self, AfterDispatch, BeforeDispatch, Cost, Numbers};
use pijs_dialect_rummy::{Set, Visibility, Writer, text};
use serde_json::{Value, json};

/// The input of the model.
pub(crate) struct Packet {
    pub(crate) ctx: Value,
    pub(crate) system: String,
    pub(crate) messages: Value,
    pub(crate) tokens: i64,
    /// Number of tokens above the ceiling; `None` if there are none. Messages above the ceiling are not sent.
    overflow: Option<i64>,
}

impl RunDriver<'_> {
    /// Assembles the messages of a turn. Summarizes a prompt that is too long for the first turn of a loop.
    pub(crate) async fn packet(&self, state: &Loop, turn: &Turn<'_>) -> Result<Packet, RummyError> {
        let mut packet = self.assembled(state, turn).await?;
        for was_demoted in [false, true] {
            let last = packet.ctx["lastContextTokens"].as_i64().unwrap_or_default();
            let (size, is_first) = (state.context_size, state.iteration == 1);
            let decided = budget::before_dispatch(packet.tokens, last, size, is_first, was_demoted, self.limits.budget);
            match decided {
                BeforeDispatch::Send => break,
                BeforeDispatch::DemotePrompt { .. } => {
                    self.summarize_prompts(state)?;
                    packet = self.assembled(state, turn).await?;
                }
                BeforeDispatch::Refuse { overflow } => {
                    packet.overflow = Some(overflow);
                    break;
                }
            }
        }
        Ok(packet)
    }

    fn summarize_prompts(&self, state: &Loop) -> Result<(), RummyError> {
        let prompts = Set { pattern: true, ..Set::new(state.run_id, "prompt://*").visibility(Visibility::Summarized) };
        self.store(|store| store.set(&prompts, Writer::System))
    }

    /// Passes the messages through the plugins' filters. Returns the messages, or the reason why they are not sent.
    pub(crate) async fn checked(
        &self,
        state: &Loop,
        turn: &Turn<'_>,
        packet: &Packet,
    ) -> Result<Result<Value, String>, RummyError> {
        let facts = json!({ "rummy": turn.hooks.reference(), "ctx": packet.ctx });
        let asked = json!({
            "messages": packet.messages, "rows": packet.ctx["rows"], "contextSize": state.context_size,
            "lastPromptTokens": packet.ctx["lastContextTokens"], "assembledTokens": packet.tokens,
            "ok": packet.overflow.is_none(), "overflow": packet.overflow.unwrap_or_default(),
        });
        let asked = self.realm.filter("turn.beforeDispatch", asked, vec![facts.clone()]).await?;
        let asked = match self.realm.call("budget.enforce", vec![asked.clone(), facts]).await? {
            Some(enforced) if enforced["ok"] == Value::Bool(false) => enforced,
            _ => asked,
        };
        if asked["ok"] == Value::Bool(false) {
            let over = asked["overflow"].as_i64().or(packet.overflow).unwrap_or_default();
            let ceiling = self.limits.budget.ceiling(state.context_size);
            return Ok(Err(format!("413: the context is {over} tokens over its ceiling of {ceiling}")));
        }
        Ok(Ok(asked["messages"].clone()))
    }

    /// Materialises the entries of the run and assembles the two messages.
    async fn assembled(&self, state: &Loop, turn: &Turn<'_>) -> Result<Packet, RummyError> {
        let run_id = state.run_id;
        self.realm.share_docs(&state.tools).await?;
        let prompt = self.realm.call("instructions.resolveSystemPrompt", vec![turn.hooks.reference()]).await?;
        let prompt = prompt.and_then(|prompt| prompt.as_str().map(str::to_owned)).unwrap_or_default();
        turn.hooks.adopt(json!({ "systemPrompt": prompt })).await?;
        let rows = self.store(|store| store.context_rows(run_id))?;
        let views = self.views(&rows).await?;
        let rows = self.store(|store| store.materialize(run_id, Some(state.loop_id), turn.number, rows, views))?;
        let facts = json!({ "runId": run_id, "turn": turn.number, "rowCount": rows.len() });
        self.emit("context.materialized", facts).await?;
        let costs: Vec<Cost> = rows.iter().map(|row| row.cost.clone()).collect();
        let numbers = Numbers::of(&costs, self.tokens(&prompt)?, state.context_size, self.limits.budget);
        let about = json!({ "run_id": run_id });
        let last = self.store(|store| store.statement("get_last_context_tokens", "get", &about))?;
        let rows: Vec<Value> = rows.iter().map(pijs_dialect_rummy::assemble::AssembledRow::to_json).collect();
        let ctx = json!({
            "rows": rows, "loopStartTurn": state.start_turn, "type": state.mode.as_str(),
            "toolSet": { "$set": state.tools }, "contextSize": state.context_size, "turn": turn.number,
            "lastContextTokens": last["context_tokens"].as_i64().unwrap_or_default(), "systemPrompt": prompt,
            "runId": run_id, "loopId": state.loop_id, "mode": state.mode.as_str(), "loopIteration": state.iteration,
            "budget": {
                "tokenUsage": numbers.usage(), "tokensFree": numbers.free(), "ceiling": numbers.ceiling,
                "table": numbers.render(),
            },
        });
        let system = self.realm.filter("assembly.system", prompt.into(), vec![ctx.clone()]).await?;
        let user = self.realm.filter("assembly.user", "".into(), vec![ctx.clone()]).await?;
        let [system, user] = [system, user].map(|text| text.as_str().unwrap_or_default().to_owned());
        let tokens = self.tokens(&system)? + self.tokens(&user)?;
        let messages = json!([{ "role": "system", "content": system }, { "role": "user", "content": user }]);
        Ok(Packet { ctx, system, messages, tokens, overflow: None })
    }

    /// Returns both views of each row from the plugins.
    async fn views(&self, rows: &[ContextRow]) -> Result<Vec<Projection>, RummyError> {
        let shown: Vec<Value> = rows.iter().map(viewed).collect();
        let views = self.realm.deliver("view", json!({ "rows": shown })).await?.value;
        let text = |view: &Value| view.as_str().unwrap_or_default().to_owned();
        let pair = |views: &Value| Projection { visible: text(&views[0]), summarized: text(&views[1]) };
        Ok(views.as_array().into_iter().flatten().map(pair).collect())
    }

    /// Summarizes the entries that a turn added if the next message would exceed the budget, and notifies plugins that the turn
    /// was dispatched.
    pub(crate) async fn after_dispatch(
        &self,
        state: &Loop,
        turn: &mut Turn<'_>,
        packet: &Packet,
    ) -> Result<(), RummyError> {
        let mut rows = self.store(|store| store.context_rows(state.run_id))?;
        rows.retain(|row| row.turn == turn.number);
        let views = self.views(&rows).await?;
        let rows = self.store(|store| Ok(store.assembled(rows, views)))?;
        let shown = rows.iter().map(|row| match row.row.visibility {
            Visibility::Visible => row.cost.visible_tokens,
            _ => row.cost.summarized_tokens,
        });
        let added = shown.sum();
        let visible = rows.iter().filter(|row| row.row.visibility == Visibility::Visible).count();
        let about = json!({ "run_id": state.run_id });
        let last = self.store(|store| store.statement("get_last_context_tokens", "get", &about))?;
        let last = last["context_tokens"].as_i64().unwrap_or_default();
        let limits = self.limits.budget;
        let demoted = match budget::after_dispatch(last, added, visible, state.context_size, limits) {
            AfterDispatch::Keep => None,
            AfterDispatch::DemoteTurn { overflow } => {
                Some((overflow, self.store(|store| store.demote_turn(state.run_id, turn.number))?))
            }
            AfterDispatch::DemoteRun { overflow } => {
                Some((overflow, self.store(|store| store.demote_run(state.run_id))?))
            }
        };
        if let Some((overflow, entries)) = demoted {
            self.summarize_prompts(state)?;
            let tokens = entries.iter().map(|entry| entry.tokens).sum();
            let ceiling = limits.ceiling(state.context_size);
            let message = budget::overflow_message(overflow, entries.len(), tokens, ceiling);
            self.log_error(state, turn, &format!("413: {message}"), 413, false).await?;
        }
        let after = json!({ "contextSize": state.context_size, "ctx": packet.ctx, "rummy": turn.hooks.reference() });
        self.emit("turn.dispatched", after.clone()).await?;
        self.realm.call("budget.postDispatch", vec![after]).await.map(drop)
    }

    fn tokens(&self, words: &str) -> Result<i64, RummyError> {
        self.store(|store| Ok(text::count_tokens(words, store.options().token_divisor)))
    }
}

/// Returns a row for a view: a log entry is shown by the tool whose action it records.
fn viewed(row: &ContextRow) -> Value {
    let mut shown = row.to_json();
    if row.scheme == "log"
        && let Some(action) = shown["attributes"]["action"].as_str().map(str::to_owned)
    {
        shown["scheme"] = action.into();
    }
    if row.scheme == "file" {
        shown["scheme"] = Value::Null;
    }
    shown
}
