//! State that the native functions of one realm share with the realm itself.
//!
//! The engine owns the native functions, which have an `Rc` to [`Shared`]; the realm has another. Native code stores persistent
//! handles to JavaScript values only here, because a closure that captured a value would hide it from the garbage collector.
//! [`Shared::release`] drops them before the engine is freed.

use crate::clock::RealmClock;
use crate::limits::Meter;
use crate::module_table::ModuleTable;
use crate::originals::Originals;
use crate::pending_promises::PendingPromises;
use crate::rejections::Rejections;
use crate::state::ReadableState;
use crate::string_cache::StringCache;
use crate::trace::{self, Trace, Traced};
use crate::values::{self, CachedName};
use crate::webassembly::WebAssemblyState;
use pijs_protocol::wire::RealmOptions;
use pijs_protocol::{CallId, HostCall, Message, SyncReply};
use pijs_tick::Entropy;
use rquickjs::{Ctx, Function, JsLifetime, Persistent, Result, Value};
use serde_json::Map;
use std::cell::{Cell, RefCell};
use std::io::Write as _;
use std::mem;
use std::ptr::NonNull;
use std::rc::Rc;

/// Executes the synchronous hostcalls of a running turn.
pub trait SyncHost {
    /// Executes a call. The realm is blocked, and no other delivery reaches it until the call returns.
    fn call(&mut self, call: HostCall) -> SyncReply;

    /// Begins a call of a realm in another process, whose reply may come later; returns `None` until then.
    fn begin(&mut self, call: HostCall) -> Option<SyncReply> {
        Some(self.call(call))
    }
}

/// State that the native functions of a realm share, with one struct for each topic.
pub(crate) struct Shared {
    pub(crate) meter: Meter,
    pub(crate) clock: RealmClock,
    pub(crate) randomness: Randomness,
    pub(crate) host: HostSlot,
    pub(crate) outbox: Outbox,
    pub(crate) facts: Map<String, serde_json::Value>,
    pub(crate) modules: RefCell<ModuleTable>,
    pub(crate) compiled: CompiledTexts,
    pub(crate) state: ReadableState,
    pub(crate) promises: TrackedPromises,
    pub(crate) handles: Handles,
    /// Stacks of the running turn, if they are recorded.
    pub(crate) trace: RefCell<Option<Trace>>,
}

/// The random numbers of a realm.
pub(crate) struct Randomness {
    entropy: RefCell<Entropy>,
    draws: Cell<u32>,
}

impl Randomness {
    /// Begins a turn.
    pub(crate) fn begin(&self) {
        self.draws.set(0);
    }

    /// Returns the number of draws in this turn.
    pub(crate) fn draws(&self) -> u32 {
        self.draws.get()
    }

    pub(crate) fn next_f64(&self) -> f64 {
        self.draws.set(self.draws.get() + 1);
        self.entropy.borrow_mut().next_f64()
    }

    pub(crate) fn fill(&self, bytes: &mut [u8]) {
        self.draws.set(self.draws.get() + 1);
        self.entropy.borrow_mut().fill(bytes);
    }
}

/// Messages for the end of the turn, and the ids of hostcalls.
#[derive(Default)]
pub(crate) struct Outbox {
    messages: RefCell<Vec<Message>>,
    calls: Cell<u64>,
}

impl Outbox {
    fn push(&self, message: Message) {
        let mut messages = self.messages.borrow_mut();
        if messages.capacity() == 0 {
            // Most turns send one message, and a growing vector reserves four.
            messages.reserve_exact(1);
        }
        messages.push(message);
    }

    /// Removes the messages of the turn.
    pub(crate) fn take(&self) -> Vec<Message> {
        mem::take(&mut *self.messages.borrow_mut())
    }

    /// Returns the next id `host-N`; synchronous and asynchronous calls share the counter.
    pub(crate) fn next_call_id(&self) -> CallId {
        let number = self.calls.get() + 1;
        self.calls.set(number);
        let mut text = [0; 32];
        let mut rest = &mut text[..];
        // At most five letters and twenty digits.
        let _ = write!(rest, "host-{number}");
        let length = 32 - rest.len();
        CallId::new(str::from_utf8(&text[..length]).unwrap_or_default())
    }
}

/// Text that was compiled while the realm ran.
#[derive(Default)]
pub(crate) struct CompiledTexts {
    /// Total size of the compiled texts in bytes.
    pub(crate) bytes: Cell<usize>,
    /// Number of texts without a file that the realm has asked to compile.
    pub(crate) scripts: Cell<u32>,
}

/// Promises that the host settles, and those that were rejected without a handler.
#[derive(Default)]
pub(crate) struct TrackedPromises {
    pub(crate) pending: PendingPromises,
    pub(crate) rejections: Rejections,
}

/// Persistent handles to JavaScript values that the engine itself needs.
pub(crate) struct Handles {
    originals: RefCell<Option<Originals>>,
    /// Function to call when no microtask is left, for Node's `nextTick` queue.
    pub(crate) after_jobs: RefCell<Option<Persistent<Function<'static>>>>,
    pub(crate) names: ResultNames,
    pub(crate) strings: StringCache,
    /// State of WebAssembly, set by the first use of `WebAssembly`.
    pub(crate) webassembly: RefCell<Option<Rc<WebAssemblyState>>>,
}

impl Handles {
    fn new() -> Self {
        Self {
            originals: RefCell::new(None),
            after_jobs: RefCell::new(None),
            names: ResultNames::new(),
            strings: StringCache::default(),
            webassembly: RefCell::new(None),
        }
    }

    /// Keeps the functions that were replaced.
    pub(crate) fn set_originals(&self, originals: Originals) {
        *self.originals.borrow_mut() = Some(originals);
    }

    /// Returns the functions that were replaced.
    pub(crate) fn originals(&self) -> Originals {
        self.originals.borrow().clone().expect("the originals are saved before any code runs")
    }

    fn release(&self) {
        self.originals.borrow_mut().take();
        self.after_jobs.borrow_mut().take();
        self.strings.release();
        self.webassembly.borrow_mut().take();
        self.names.no_attachments.borrow_mut().take();
    }
}

/// Member names of hostcall results.
pub(crate) struct ResultNames {
    pub(crate) output: CachedName,
    pub(crate) bytes: CachedName,
    no_attachments: RefCell<Option<Persistent<Value<'static>>>>,
}

impl ResultNames {
    fn new() -> Self {
        Self { output: CachedName::new("output"), bytes: CachedName::new("bytes"), no_attachments: RefCell::new(None) }
    }

    /// Returns the list for results without attachments; all of them share one frozen list.
    pub(crate) fn no_attachments<'js>(&self, ctx: &Ctx<'js>) -> Result<Value<'js>> {
        if let Some(no_attachments) = &*self.no_attachments.borrow() {
            return no_attachments.clone().restore(ctx);
        }
        let no_attachments = values::frozen_list(ctx)?;
        *self.no_attachments.borrow_mut() = Some(Persistent::save(ctx, no_attachments.clone()));
        Ok(no_attachments)
    }
}

impl Shared {
    pub(crate) fn new(options: &RealmOptions) -> Self {
        Self {
            meter: Meter::new(&options.limits),
            clock: RealmClock::new(options.clock_step_us),
            randomness: Randomness { entropy: RefCell::new(Entropy::seeded(options.seed)), draws: Cell::new(0) },
            host: HostSlot::default(),
            outbox: Outbox::default(),
            facts: options.facts.clone(),
            modules: RefCell::new(ModuleTable::default()),
            compiled: CompiledTexts::default(),
            state: ReadableState::default(),
            promises: TrackedPromises::default(),
            handles: Handles::new(),
            trace: RefCell::new(None),
        }
    }

    /// Queues a message for the end of the turn.
    pub(crate) fn send(&self, ctx: &Ctx<'_>, message: Message) {
        trace::record(ctx, self, Traced::Message);
        self.outbox.push(message);
    }

    /// Drops every JavaScript value; the engine aborts the process if a value outlives it.
    pub(crate) fn release(&self) {
        self.modules.borrow_mut().release();
        self.state.release();
        self.promises.rejections.release();
        self.promises.pending.release();
        self.handles.release();
    }
}

/// Makes [`Shared`] reachable from a `Ctx`.
pub(crate) struct SharedHandle(pub(crate) Rc<Shared>);

// SAFETY: holds no value with the lifetime of a context; persistent handles are 'static by design.
unsafe impl JsLifetime<'_> for SharedHandle {
    type Changed<'to> = SharedHandle;
}

/// The host of the running turn, lent to the native functions while the turn runs.
#[derive(Default)]
pub(crate) struct HostSlot {
    lent: Cell<Option<NonNull<dyn SyncHost>>>,
}

impl HostSlot {
    /// Lends `host` while `body` runs.
    pub(crate) fn lend<R>(&self, host: &mut dyn SyncHost, body: impl FnOnce() -> R) -> R {
        struct ReturnHost<'a>(&'a HostSlot);
        impl Drop for ReturnHost<'_> {
            fn drop(&mut self) {
                self.0.lent.set(None);
            }
        }
        let host: NonNull<dyn SyncHost + '_> = NonNull::from(host);
        // SAFETY: only the lifetime changes. `ReturnHost` takes the pointer back before this function
        // ends, also when `body` unwinds, so it is never used after the borrow it came from.
        let host = unsafe { mem::transmute::<NonNull<dyn SyncHost + '_>, NonNull<dyn SyncHost + 'static>>(host) };
        self.lent.set(Some(host));
        let _return = ReturnHost(self);
        body()
    }

    /// Calls the lent host; returns `None` outside of a turn, and inside another call.
    pub(crate) fn call(&self, call: HostCall) -> Option<SyncReply> {
        let mut host = self.lent.take()?;
        // SAFETY: the pointer is live (see `lend`) and unique, because it was taken out of the slot. No
        // other place holds it, so a nested call finds none.
        let reply = unsafe { host.as_mut() }.call(call);
        self.lent.set(Some(host));
        Some(reply)
    }
}
