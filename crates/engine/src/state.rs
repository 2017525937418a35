//! The readable state: a snapshot of the host's, kept inside the realm and changed by difference.
//!
//! `pi:engine`'s `state()` returns one object, the same each time: `{version, set, entries}`. The
//! engine changes it in place before a task and with a hostcall's reply; reading costs nothing.

use crate::values::{self, push, put};
use pijs_protocol::wire::StateDelta;
use rquickjs::{Array, Ctx, Object, Persistent, Result};
use std::cell::RefCell;

#[derive(Clone)]
struct Snapshot {
    whole: Persistent<Object<'static>>,
    set: Persistent<Object<'static>>,
    entries: Persistent<Array<'static>>,
}

#[derive(Default)]
pub(crate) struct State {
    snapshot: RefCell<Option<Snapshot>>,
}

impl State {
    /// The object that `state()` returns.
    pub(crate) fn object<'js>(&self, ctx: &Ctx<'js>) -> Result<Object<'js>> {
        self.snapshot(ctx)?.whole.restore(ctx)
    }

    /// Applies a difference.
    pub(crate) fn apply(&self, ctx: &Ctx<'_>, delta: &StateDelta) -> Result<()> {
        let snapshot = self.snapshot(ctx)?;
        let set = snapshot.set.restore(ctx)?;
        for (name, value) in &delta.set {
            put(&set, name.as_str(), values::to_js(ctx, value)?)?;
        }
        if let Some(change) = &delta.entries {
            let entries = snapshot.entries.restore(ctx)?;
            let keep = change.keep.min(entries.len());
            entries.as_object().set("length", i32::try_from(keep).unwrap_or(i32::MAX))?;
            for (offset, entry) in change.append.iter().enumerate() {
                push(&entries, keep + offset, values::to_js(ctx, entry)?)?;
            }
        }
        #[expect(clippy::cast_precision_loss, reason = "a version counts changes of one session")]
        put(&snapshot.whole.restore(ctx)?, "version", delta.version as f64)
    }

    fn snapshot(&self, ctx: &Ctx<'_>) -> Result<Snapshot> {
        if let Some(snapshot) = &*self.snapshot.borrow() {
            return Ok(snapshot.clone());
        }
        let whole = Object::new(ctx.clone())?;
        let set = Object::new(ctx.clone())?;
        let entries = Array::new(ctx.clone())?;
        put(&whole, "version", 0)?;
        put(&whole, "set", set.clone())?;
        put(&whole, "entries", entries.clone())?;
        let snapshot = Snapshot {
            whole: Persistent::save(ctx, whole),
            set: Persistent::save(ctx, set),
            entries: Persistent::save(ctx, entries),
        };
        *self.snapshot.borrow_mut() = Some(snapshot.clone());
        Ok(snapshot)
    }

    pub(crate) fn release(&self) {
        self.snapshot.borrow_mut().take();
    }
}
