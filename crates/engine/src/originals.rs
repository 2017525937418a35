//! Original functions of the engine that were replaced; the replacements call them.

use rquickjs::{Function, Persistent};

/// Engine functions that the replacements call.
#[derive(Clone)]
pub(crate) struct Originals {
    pub(crate) date: Persistent<Function<'static>>,
    pub(crate) stack: Persistent<Function<'static>>,
    pub(crate) capture_stack_trace: Persistent<Function<'static>>,
    pub(crate) error_to_string: Persistent<Function<'static>>,
    pub(crate) transfers: [Persistent<Function<'static>>; 3],
}
