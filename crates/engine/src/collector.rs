//! The threshold of the garbage collector, which is higher in turns that load modules.
//!
//! Almost everything that modules allocate while they are evaluated stays alive, and each collection traverses all of it, so a
//! turn that loads modules of an artifact collects only above [`LOAD_THRESHOLD`]. A module is loaded once, so this ends; a
//! module that is compiled while the realm runs does not count. Thresholds are constants or depend on the heap's size, so that
//! collections happen at the same allocation in every run.

use pijs_protocol::wire::Limits;
use rquickjs::{Ctx, qjs};
use std::cell::Cell;

/// Allocated bytes before the first garbage collection; later thresholds depend on the surviving bytes.
pub(crate) const FIRST_THRESHOLD: usize = 4 << 20;

/// Allocated bytes before a collection in a turn that loads modules.
const LOAD_THRESHOLD: usize = 32 << 20;

/// Postpones garbage collections while modules are loaded.
#[derive(Debug)]
pub(crate) struct Collector {
    /// Maximum threshold: half of the realm's memory, which leaves space for garbage until the next collection.
    max_threshold: usize,
    /// The thresholds before and since the first module of the running turn was loaded.
    postponed: Cell<Option<(usize, usize)>>,
}

impl Collector {
    pub(crate) fn new(limits: &Limits) -> Self {
        let max_threshold = usize::try_from(limits.memory_bytes / 2).unwrap_or(usize::MAX);
        Self { max_threshold, postponed: Cell::new(None) }
    }

    /// Raises the threshold until the end of the turn.
    pub(crate) fn postpone(&self, ctx: &Ctx<'_>) {
        if self.postponed.get().is_none() {
            let before = threshold(ctx);
            let raised = before.max(LOAD_THRESHOLD.min(self.max_threshold));
            set_threshold(ctx, raised);
            self.postponed.set(Some((before, raised)));
        }
    }

    /// Ends the turn. If its modules were loaded without a collection, the next one is due when the heap has grown by half, as
    /// after a collection.
    pub(crate) fn end_turn(&self, ctx: &Ctx<'_>, heap_bytes: u64) {
        let Some((before, raised)) = self.postponed.take() else { return };
        if threshold(ctx) == raised {
            let heap = usize::try_from(heap_bytes).unwrap_or(usize::MAX);
            set_threshold(ctx, heap.saturating_add(heap / 2).min(self.max_threshold).max(before));
        }
    }
}

fn threshold(ctx: &Ctx<'_>) -> usize {
    // SAFETY: a live context has a live runtime; the call reads a number of it.
    let threshold = unsafe { qjs::JS_GetGCThreshold(qjs::JS_GetRuntime(ctx.as_raw().as_ptr())) };
    usize::try_from(threshold).unwrap_or(usize::MAX)
}

fn set_threshold(ctx: &Ctx<'_>, bytes: usize) {
    // SAFETY: the context is entered, so its runtime lives and no other code uses it; the call stores a number in it.
    unsafe { qjs::JS_SetGCThreshold(qjs::JS_GetRuntime(ctx.as_raw().as_ptr()), bytes as qjs::size_t) };
}
