//! Assembles the rows of a message: the entries of a run that are visible to the model, in order, with the views of plugins.
//!
//! ```text
//! v_model_context ──▶ rows ──▶ view of each row's scheme ──▶ turn_context ──▶ filters `assembly.system`, `assembly.user`
//! ```
//!
//! Plugins provide views and filters; this module determines the order of the rows, counts tokens, and records the snapshot of
//! the turn.

use crate::budget::Cost;
use crate::entry::{State, Visibility};
use crate::error::StoreError;
use crate::store::Store;
use crate::text;
use rusqlite::params;
use serde_json::{Value, json};

/// A row that is visible to the model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContextRow {
    /// Position in the message, from 1.
    pub ordinal: i64,
    /// Path of the entry.
    pub path: String,
    /// Scheme; `file` for bare paths.
    pub scheme: String,
    /// Category of the scheme.
    pub category: String,
    /// Visible or summarized.
    pub visibility: Visibility,
    /// The state of the entry.
    pub state: State,
    /// Reason why the entry failed.
    pub outcome: Option<String>,
    /// The whole body.
    pub body: String,
    /// Attributes as JSON.
    pub attributes: String,
    /// Turn that wrote the entry last.
    pub turn: i64,
}

impl ContextRow {
    /// Returns the row in the format for views of plugins.
    pub fn to_json(&self) -> Value {
        json!({
            "path": self.path, "scheme": self.scheme, "body": self.body, "visibility": self.visibility,
            "attributes": serde_json::from_str::<Value>(&self.attributes).unwrap_or_default(),
            "category": self.category, "state": self.state, "outcome": self.outcome, "turn": self.turn,
        })
    }
}

/// Both views of a row.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Projection {
    /// The text that the view for visible entries returns.
    pub visible: String,
    /// The text that the view for summarized entries returns.
    pub summarized: String,
}

/// A row of the snapshot, as passed to the assembly filters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AssembledRow {
    /// The row; its body is the text of the view for its visibility.
    pub row: ContextRow,
    /// Both views.
    pub projection: Projection,
    /// The row's cost in tokens.
    pub cost: Cost,
}

impl AssembledRow {
    /// Returns the row in the format for filters, with its three token counts; the model sees `tokens`.
    pub fn to_json(&self) -> Value {
        let row = &self.row;
        json!({
            "ordinal": row.ordinal, "path": row.path, "scheme": text::scheme_of(&row.path), "visibility": row.visibility,
            "state": row.state, "outcome": row.outcome, "body": row.body,
            "attributes": serde_json::from_str::<Value>(&row.attributes).unwrap_or_default(),
            "category": row.category, "source_turn": row.turn, "tokens": self.cost.premium(),
            "vTokens": self.cost.visible_tokens, "sTokens": self.cost.summarized_tokens, "aTokens": self.cost.premium(),
            "vBody": self.projection.visible, "sBody": self.projection.summarized,
        })
    }
}

impl Store {
    /// Returns the entries of a run that are visible to the model, in the order of a message.
    pub fn context_rows(&self, run_id: i64) -> Result<Vec<ContextRow>, StoreError> {
        let mut statement = self.connection().prepare_cached(
            "SELECT ordinal, path, COALESCE(scheme, 'file'), category, visibility, state, outcome, body, attributes, turn
             FROM v_model_context WHERE run_id = ?1 ORDER BY ordinal",
        )?;
        let rows = statement.query_map([run_id], |row| {
            Ok(ContextRow {
                ordinal: row.get(0)?,
                path: row.get(1)?,
                scheme: row.get(2)?,
                category: row.get(3)?,
                visibility: row.get(4)?,
                state: row.get(5)?,
                outcome: row.get(6)?,
                body: row.get(7)?,
                attributes: row.get(8)?,
                turn: row.get(9)?,
            })
        })?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// Records the snapshot of a turn: the views of each row, their cost and their position. Views are in the order of the rows;
    /// a row without a view is empty.
    ///
    /// A turn that is assembled again replaces its snapshot.
    pub fn materialize(
        &mut self,
        run_id: i64,
        loop_id: Option<i64>,
        turn: i64,
        rows: Vec<ContextRow>,
        views: Vec<Projection>,
    ) -> Result<Vec<AssembledRow>, StoreError> {
        let rows = self.assembled(rows, views);
        self.keep_context(run_id, loop_id, turn, &rows)?;
        Ok(rows)
    }

    /// Combines rows with their views, and counts their cost.
    pub fn assembled(&self, rows: Vec<ContextRow>, views: Vec<Projection>) -> Vec<AssembledRow> {
        let divisor = self.options().token_divisor;
        let views = views.into_iter().chain(std::iter::repeat_with(Projection::default));
        let assembled = rows.into_iter().zip(views).map(|(mut row, projection)| {
            let cost = Cost {
                scheme: row.scheme.clone(),
                visibility: row.visibility,
                visible_tokens: text::count_tokens(&projection.visible, divisor),
                summarized_tokens: text::count_tokens(&projection.summarized, divisor),
            };
            let shown =
                if row.visibility == Visibility::Visible { &projection.visible } else { &projection.summarized };
            row.body.clone_from(shown);
            AssembledRow { row, projection, cost }
        });
        assembled.collect()
    }

    fn keep_context(
        &mut self,
        run_id: i64,
        loop_id: Option<i64>,
        turn: i64,
        rows: &[AssembledRow],
    ) -> Result<(), StoreError> {
        let transaction = self.connection().unchecked_transaction()?;
        transaction
            .prepare_cached("DELETE FROM turn_context WHERE run_id = ?1 AND turn = ?2")?
            .execute(params![run_id, turn])?;
        {
            let mut insert = transaction.prepare_cached(
                "INSERT INTO turn_context (run_id, loop_id, turn, ordinal, path, visibility, state, outcome, body, tokens,
                 attributes, category, source_turn)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)",
            )?;
            for AssembledRow { row, cost, .. } in rows {
                insert.execute(params![
                    run_id,
                    loop_id,
                    turn,
                    row.ordinal,
                    row.path,
                    row.visibility,
                    row.state,
                    row.outcome,
                    row.body,
                    cost.premium().max(0),
                    row.attributes,
                    row.category,
                    row.turn
                ])?;
            }
        }
        transaction.commit()?;
        Ok(())
    }
}

/// Returns the first turn of the current loop, which is the turn of the latest prompt.
pub fn loop_start_turn(rows: &[AssembledRow]) -> i64 {
    let is_prompt = |one: &&AssembledRow| one.row.category == "prompt" && one.row.scheme == "prompt";
    rows.iter().rev().find(is_prompt).map_or(0, |one| one.row.turn)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::tests::demo;
    use crate::{Set, Writer};

    fn assembled(store: &mut Store, run: i64, turn: i64) -> Vec<AssembledRow> {
        let rows = store.context_rows(run).unwrap();
        let view =
            |row: &ContextRow| Projection { visible: row.body.clone(), summarized: row.body.chars().take(2).collect() };
        let views = rows.iter().map(view).collect();
        store.materialize(run, None, turn, rows, views).unwrap()
    }

    /// A row's body is the view for its visibility: rummy's specification, "Materialization" and "Token Accounting".
    #[test]
    fn rows_carry_the_view_of_their_visibility() {
        let (mut store, run) = demo();
        let set = |path: &str| Set::new(run, path).body("0123456789").during(2, None);
        store.set(&set("known://a").visibility(Visibility::Visible), Writer::Model).unwrap();
        store.set(&set("known://b"), Writer::Model).unwrap();
        store.set(&set("known://c").visibility(Visibility::Archived), Writer::Model).unwrap();
        store.set(&set("prompt://2"), Writer::Plugin).unwrap();
        let rows = assembled(&mut store, run, 2);
        let seen: Vec<_> = rows.iter().map(|one| (one.row.path.as_str(), one.row.body.as_str())).collect();
        assert_eq!(seen, [("known://b", "01"), ("known://a", "0123456789"), ("prompt://2", "0123456789")]);
        assert_eq!(rows[0].to_json()["tokens"], 4);
        assert_eq!((rows[1].cost.visible_tokens, rows[1].cost.summarized_tokens), (5, 1));
        assert_eq!(loop_start_turn(&rows), 2);
        assembled(&mut store, run, 2);
        let kept = store.statement("get_turn_context", "all", &json!({"run_id": run, "turn": 2})).unwrap();
        assert_eq!(kept.as_array().unwrap().len(), 3);
    }
}
