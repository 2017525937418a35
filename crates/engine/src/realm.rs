//! A realm: one runtime and one context, entered once per macrotask.
//!
//! ```text
//! turn ─ enter ─ limits, clock, host lent ─ pi:runtime's function ─ drain ─ leave ─ verdict
//! ```
//!
//! Invariants: the microtask queue is empty between turns; a turn either yields or ends the realm, and the counters decide which,
//! not the exception that guest code throws; a realm that has ended returns the same [`Termination`] for every later turn.
//!
//! `pi:runtime` is a host module. It handles every exception of guest code; an exception that leaves
//! `pi:runtime` itself is a host bug.

use crate::error::EngineError;
#[cfg(target_os = "linux")]
use crate::fork::{cow_heap, heap_padding};
use crate::intrinsics::{self, Deterministic};
use crate::limits::Interrupter;
use crate::loader::ArtifactLoader;
use crate::runtime_exports::{HandlerAnswer, RuntimeExports};
use crate::shared::{Shared, SharedHandle, SyncHost};
use crate::trace::Trace;
use crate::values::describe;
use crate::{collector, message, panics, stack, values};
use pijs_artifact::Verified;
use pijs_protocol::wire::{Limits, RealmOptions, StateDelta, StreamAnswer, Task};
use pijs_protocol::{Delivery, Message, Now, Seq, StreamDelta, Termination, Usage, Yield, guard};
use rquickjs::function::{Constructor, This};
use rquickjs::promise::PromiseState;
use rquickjs::{Context, Ctx, Function, Module, Object, Runtime, Value, qjs};
use std::mem::MaybeUninit;
use std::rc::Rc;
use std::sync::Arc;

/// Specifier of the module whose default export receives every task.
const RUNTIME_MODULE: &str = "pi:runtime";

/// Maximum number of unhandled rejections that are reported one by one when the microtasks are drained; the others are only
/// counted. Low enough to leave space for that count within the host's own limit of reports.
const MAX_REJECTIONS: usize = 50;

/// Maximum number of alternations between *drain* and *resume* for one delta: more than the number of handlers of any realm.
const MAX_RESUMES: u32 = 10_000;

/// One QuickJS runtime and context without a compiler, from start to termination.
///
/// A realm lives on one thread. It is created with [`RealmOptions`], gets its modules, is started once, and then runs one
/// macrotask at a time:
///
/// ```no_run
/// # use pijs_engine::{EngineRealm, SyncHost};
/// # use pijs_protocol::{Delivery, Now, Termination, Yield, wire::RealmOptions};
/// # use std::sync::Arc;
/// # fn run(options: &RealmOptions, host_modules: Arc<pijs_artifact::Verified>, delivery: Delivery,
/// #        host: &mut dyn SyncHost) -> Result<Yield, Box<dyn std::error::Error>> {
/// let mut realm = EngineRealm::new(options)?;
/// realm.add_modules(host_modules);
/// realm.start(Now::default(), host)?;
/// let done: Yield = realm.turn(delivery, host)?;
/// # Ok(done)
/// # }
/// ```
pub struct EngineRealm {
    // The fields are dropped in this order; `Drop` has released every other handle to a JavaScript value before.
    exports: Option<RuntimeExports>,
    ended: Option<Termination>,
    limits: Limits,
    pub(crate) shared: Rc<Shared>,
    context: Context,
    #[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "only a zygote is prepared for copies"))]
    runtime: Runtime,
    /// Set in a zygote and its copies.
    #[cfg(target_os = "linux")]
    cow_heap: Option<cow_heap::CowHeap>,
}

/// The reason why a turn could not be completed. The counters show whether the guest caused it.
pub(crate) enum TurnFault {
    /// Stopped by a limit, or by a bug that is already recorded.
    Stopped,
    /// A host bug.
    Bug(String),
}

/// Measures the stack of a turn from the frame at which the turn begins.
///
/// Otherwise the engine measures from the frame that created the runtime, and if the host calls from a deeper frame, the guest's
/// stack is smaller by the difference. rquickjs does this only with its feature `parallel`.
fn measure_stack_from_here(ctx: &Ctx<'_>) {
    // SAFETY: the context is entered, so its runtime lives and no other code uses it; the call only stores the address
    // of the current frame in it.
    unsafe { rquickjs::qjs::JS_UpdateStackTop(rquickjs::qjs::JS_GetRuntime(ctx.as_raw().as_ptr())) }
}

impl EngineRealm {
    /// Creates a realm without modules.
    ///
    /// # Errors
    ///
    /// Fails when the memory limit is too small for an empty context.
    pub fn new(options: &RealmOptions) -> Result<Self, EngineError> {
        let shared = Rc::new(Shared::new(options));
        let failed = |error: rquickjs::Error| EngineError::new(format!("cannot create a realm: {error}"));
        let runtime = Runtime::new_with_alloc(shared.meter.allocator()).map_err(failed)?;
        if guard!(EngineStack) {
            runtime.set_max_stack_size(stack::stack_size(options.limits.stack_bytes));
        } else {
            // 0 means no limit; by default, the engine has one.
            runtime.set_max_stack_size(0);
        }
        runtime.set_gc_threshold(collector::FIRST_THRESHOLD);
        let meter = Rc::clone(&shared);
        runtime.set_interrupt_handler(Some(Box::new(move || meter.meter.poll())));
        runtime.set_loader(ArtifactLoader(Rc::clone(&shared)), ArtifactLoader(Rc::clone(&shared)));
        let tracker = Rc::clone(&shared);
        runtime.set_host_promise_rejection_tracker(Some(Box::new(move |ctx, promise, reason, is_handled| {
            tracker.promises.rejections.track(&ctx, promise, reason, is_handled);
        })));
        let context = Context::custom::<Deterministic>(&runtime).map_err(failed)?;
        let installed = context.with(|ctx| {
            ctx.store_userdata(SharedHandle(Rc::clone(&shared)))?;
            intrinsics::install(&ctx, &shared)
        });
        let realm = Self {
            exports: None,
            ended: None,
            limits: options.limits.clone(),
            shared,
            context,
            runtime,
            #[cfg(target_os = "linux")]
            cow_heap: None,
        };
        // After `realm` exists, so that its `Drop` releases the values that `install` has saved.
        installed.map_err(failed)?;
        if !realm.shared.meter.limit_memory(&options.limits) {
            return Err(EngineError::new("cannot create a realm: the memory limit is too small for an empty one"));
        }
        realm.load_time_zone()?;
        Ok(realm)
    }

    /// Makes the C library read the time zone now, while files can still be opened: otherwise the first use of local time would
    /// open the zone's file, which a sealed process cannot do.
    ///
    /// Realms in a thread do so as well: the calls are steps of the engine, and all kinds of realms must count the same fuel.
    fn load_time_zone(&self) -> Result<(), EngineError> {
        let loaded = self.context.with(|ctx| {
            let date: Constructor<'_> = ctx.globals().get("Date")?;
            let epoch: Object<'_> = date.construct((0,))?;
            let offset: Function<'_> = epoch.get("getTimezoneOffset")?;
            offset.call::<_, f64>((This(epoch),))
        });
        loaded.map(drop).map_err(|error| EngineError::new(format!("cannot load the time zone: {error}")))
    }

    /// Makes the modules of an artifact importable: the host modules first, then the extension's artifact.
    ///
    /// The artifact stays shared; a module is loaded when it is first imported.
    pub fn add_modules(&mut self, modules: Arc<Verified>) {
        self.shared.modules.borrow_mut().add(modules);
    }

    /// Evaluates `pi:runtime`, whose exports receive every later task. Must be called once.
    pub fn start(&mut self, now: Now, host: &mut dyn SyncHost) -> Result<Yield, Termination> {
        let (exports, done) = self.enter(now, self.limits.fuel, host, |ctx, realm| {
            let exports = realm.load_runtime(ctx)?;
            realm.drain(ctx, Some(&exports))?;
            Ok((exports, StreamAnswer::Continue))
        })?;
        self.exports = Some(exports);
        Ok(done)
    }

    /// Prepares a zygote for forks: collects garbage, fills free blocks, so that a copy allocates on new pages, and maps the heap
    /// from a memory file, so that a copy can return pages that it has not changed. On systems without memory files, copies keep
    /// every page that they have written to.
    #[cfg(target_os = "linux")]
    pub fn prepare_for_copies(&mut self) {
        self.runtime.run_gc();
        if !self.shared.meter.has_free_memory(heap_padding::MAX_ARENA_BYTES) {
            return;
        }
        self.context.with(|ctx| heap_padding::fill_engine(&ctx, || self.shared.meter.heap_bytes()));
        heap_padding::fill_heap();
        self.cow_heap = cow_heap::CowHeap::create().ok();
    }

    /// Faults in the pages of a growing heap many at a time from now on. Requires a process with one thread.
    #[cfg(target_os = "linux")]
    pub fn fault_in_ahead(&self) {
        self.shared.meter.heap_growth().restart();
    }

    /// Returns pages without allocations to the system.
    #[cfg(target_os = "linux")]
    pub fn trim_heap(&self) {
        heap_padding::return_free_memory();
        let growth = self.shared.meter.heap_growth();
        if growth.is_on() {
            growth.restart();
        }
    }

    /// Returns everything that is not needed until the next turn: pages without allocations, unused stack, resident pages of the
    /// program's files, and in a forked process the pages that equal the zygote's. Requires a process with one thread.
    #[cfg(target_os = "linux")]
    pub fn release_idle_memory(&self) {
        self.trim_heap();
        if let Some(cow_heap) = &self.cow_heap {
            cow_heap.drop_unchanged();
        }
        cow_heap::release_stack();
        cow_heap::release_program_pages();
    }

    /// Runs one macrotask, drains its microtasks, and yields.
    ///
    /// # Errors
    ///
    /// Returns the termination of the realm: out of fuel, jobs or memory, interrupted, or a host bug. Discard the realm then.
    pub fn turn(&mut self, delivery: Delivery, host: &mut dyn SyncHost) -> Result<Yield, Termination> {
        let Delivery { seq, now, task, state } = delivery;
        match task {
            Task::Message(message) => {
                let run = |ctx: &Ctx<'_>, realm: &Self| {
                    let exports = realm.exports()?;
                    realm.apply_state(ctx, state.as_ref())?;
                    realm.deliver(ctx, exports, &message)?;
                    realm.drain(ctx, Some(exports))?;
                    Ok(((), StreamAnswer::Continue))
                };
                self.enter(now, self.limits.fuel, host, run).map(|((), done)| done)
            }
            Task::Stream(delta) => self.run_stream(seq, now, &delta, state.as_ref(), host),
        }
    }

    /// Delivers a streamed delta like [`turn`](Self::turn), but without building a message, because this is done for each token
    /// of a provider.
    pub fn stream(
        &mut self,
        seq: Seq,
        now: Now,
        delta: &StreamDelta,
        host: &mut dyn SyncHost,
    ) -> Result<Yield, Termination> {
        self.run_stream(seq, now, delta, None, host)
    }

    /// Returns a handle that stops a running turn from another thread.
    pub fn interrupter(&self) -> Interrupter {
        self.shared.meter.interrupter()
    }

    fn run_stream(
        &mut self,
        _seq: Seq,
        now: Now,
        delta: &StreamDelta,
        state: Option<&StateDelta>,
        host: &mut dyn SyncHost,
    ) -> Result<Yield, Termination> {
        let run = |ctx: &Ctx<'_>, realm: &Self| {
            let exports = realm.exports()?;
            realm.apply_state(ctx, state)?;
            let mut answer = realm.classify(ctx, exports.stream(ctx, delta))?;
            let mut resumes = 0;
            while let HandlerAnswer::Drain = answer {
                realm.drain(ctx, Some(exports))?;
                resumes += 1;
                if resumes > MAX_RESUMES {
                    return Err(TurnFault::Bug(format!(
                        "{RUNTIME_MODULE}: streamResume asked to drain {MAX_RESUMES} times"
                    )));
                }
                answer = realm.classify(ctx, exports.stream_resume(ctx))?;
            }
            realm.drain(ctx, Some(exports))?;
            match answer {
                HandlerAnswer::Final(answer) => Ok(((), answer)),
                HandlerAnswer::Continue | HandlerAnswer::Drain => Ok(((), StreamAnswer::Continue)),
            }
        };
        self.enter(now, self.limits.stream_fuel, host, run).map(|((), done)| done)
    }

    /// Runs `body` as a turn: resets counters and clock, lends the host, and applies the verdict of the counters.
    fn enter<T>(
        &mut self,
        now: Now,
        fuel: u64,
        host: &mut dyn SyncHost,
        body: impl FnOnce(&Ctx<'_>, &Self) -> Result<(T, StreamAnswer), TurnFault>,
    ) -> Result<(T, Yield), Termination> {
        if let Some(ended) = &self.ended {
            return Err(ended.clone());
        }
        let shared = &*self.shared;
        shared.meter.begin(fuel);
        shared.clock.begin(now);
        shared.randomness.begin();
        let outcome = shared.host.lend(host, || {
            panics::catch(|| {
                self.context.with(|ctx| {
                    measure_stack_from_here(&ctx);
                    let outcome = body(&ctx, self);
                    shared.meter.collector.end_turn(&ctx, shared.meter.heap_bytes());
                    outcome
                })
            })
            .unwrap_or_else(|detail| Err(TurnFault::Bug(detail)))
        });
        shared.meter.end();
        shared.promises.rejections.end_turn();
        if let Err(TurnFault::Bug(detail)) = &outcome
            && shared.meter.verdict().is_none()
        {
            shared.meter.report_bug(detail.clone());
        }
        if let Some(termination) = shared.meter.verdict() {
            self.ended = Some(termination.clone());
            return Err(termination);
        }
        let Ok((value, stream)) = outcome else {
            unreachable!("a stopped turn has left a mark in the counters");
        };
        let messages = shared.outbox.take();
        Ok((value, Yield { messages, stream, usage: self.usage() }))
    }

    fn usage(&self) -> Usage {
        let meter = &self.shared.meter;
        Usage {
            jobs: meter.jobs(),
            fuel: meter.fuel(),
            clock_reads: self.shared.clock.reads(),
            random_draws: self.shared.randomness.draws(),
            heap_bytes: meter.heap_bytes(),
        }
    }

    fn exports(&self) -> Result<&RuntimeExports, TurnFault> {
        self.exports.as_ref().ok_or_else(|| TurnFault::Bug("a realm was entered before it was started".to_owned()))
    }

    fn apply_state(&self, ctx: &Ctx<'_>, delta: Option<&StateDelta>) -> Result<(), TurnFault> {
        match delta {
            Some(delta) => self.classify(ctx, self.shared.state.apply(ctx, delta)),
            None => Ok(()),
        }
    }

    fn deliver(&self, ctx: &Ctx<'_>, exports: &RuntimeExports, message: &Message) -> Result<(), TurnFault> {
        if let Message::HostResult(result) = message {
            return self.classify(ctx, exports.result(ctx, &self.shared, result));
        }
        let message = self.classify(ctx, message::serialized(ctx, message))?;
        self.classify(ctx, exports.message(ctx, message))
    }

    /// Classifies a failure as an exceeded limit, or as an exception that `pi:runtime` did not catch.
    fn classify<T>(&self, ctx: &Ctx<'_>, result: rquickjs::Result<T>) -> Result<T, TurnFault> {
        result.map_err(|error| {
            if self.shared.meter.must_stop() {
                ctx.catch();
                return TurnFault::Stopped;
            }
            TurnFault::Bug(match error {
                rquickjs::Error::Exception => format!("{RUNTIME_MODULE} threw: {}", describe(&ctx.catch())),
                other => format!("{RUNTIME_MODULE}: {other}"),
            })
        })
    }

    fn load_runtime(&self, ctx: &Ctx<'_>) -> Result<RuntimeExports, TurnFault> {
        if self.exports.is_some() {
            return Err(TurnFault::Bug("a realm was started twice".to_owned()));
        }
        let loading = self.classify(ctx, Module::import(ctx, RUNTIME_MODULE))?;
        self.drain(ctx, None)?;
        match loading.state() {
            PromiseState::Pending => {
                Err(TurnFault::Bug(format!("{RUNTIME_MODULE} has a top-level await that never settles")))
            }
            PromiseState::Resolved | PromiseState::Rejected => {
                let namespace: Object<'_> =
                    self.classify(ctx, loading.result().unwrap_or(Err(rquickjs::Error::Unknown)))?;
                let exports: Value<'_> = self.classify(ctx, namespace.get("default"))?;
                RuntimeExports::of(ctx, &exports)
                    .map_err(|missing| TurnFault::Bug(format!("{RUNTIME_MODULE} has no function {missing}")))?
                    .map_or_else(|error| self.classify(ctx, Err(error)), Ok)
            }
        }
    }

    /// Runs microtasks and the callbacks of `afterJobs` until none are left and every unhandled rejection is reported.
    fn drain(&self, ctx: &Ctx<'_>, exports: Option<&RuntimeExports>) -> Result<(), TurnFault> {
        let meter = &self.shared.meter;
        loop {
            while is_job_pending(ctx) {
                if meter.must_stop() || !meter.count_job() {
                    return Err(TurnFault::Stopped);
                }
                if let Err(thrown) = run_job(ctx) {
                    self.report(ctx, exports, thrown)?;
                }
            }
            if meter.must_stop() {
                return Err(TurnFault::Stopped);
            }
            let after = self.shared.handles.after_jobs.borrow_mut().take();
            if let Some(after) = after {
                if !meter.count_job() {
                    return Err(TurnFault::Stopped);
                }
                let called = after.restore(ctx).and_then(|after| after.call::<_, ()>(()));
                self.classify(ctx, called)?;
                continue;
            }
            if self.shared.promises.rejections.is_empty() || exports.is_none() {
                return Ok(());
            }
            let most = if guard!(EngineRejections) { MAX_REJECTIONS } else { usize::MAX };
            let (reasons, more) = self.classify(ctx, self.shared.promises.rejections.take(ctx, most))?;
            for reason in reasons {
                self.report(ctx, exports, reason)?;
            }
            if more > 0 {
                let words = format!("{more} more unhandled promise rejections");
                let words = self.classify(ctx, values::string_to_js(ctx, &words))?;
                self.report(ctx, exports, words)?;
            }
        }
    }

    /// Passes an unhandled rejection or exception to `pi:runtime`.
    fn report<'js>(
        &self,
        ctx: &Ctx<'js>,
        exports: Option<&RuntimeExports>,
        reason: Value<'js>,
    ) -> Result<(), TurnFault> {
        if self.shared.meter.must_stop() {
            return Err(TurnFault::Stopped);
        }
        match exports {
            Some(exports) => self.classify(ctx, exports.unhandled(ctx, reason)),
            None => Err(TurnFault::Bug(format!(
                "{RUNTIME_MODULE} threw while it was loaded: {}",
                values::describe(&reason)
            ))),
        }
    }

    /// Records stacks from now on.
    pub fn trace(&mut self) {
        self.shared.trace.borrow_mut().get_or_insert_default();
    }

    /// Removes and returns the stacks recorded since the last call; empty unless [`trace`](Self::trace) was called.
    pub fn take_trace(&mut self) -> Trace {
        self.shared.trace.borrow_mut().as_mut().map(std::mem::take).unwrap_or_default()
    }
}

impl Drop for EngineRealm {
    fn drop(&mut self) {
        self.exports = None;
        self.shared.release();
    }
}

fn is_job_pending(ctx: &Ctx<'_>) -> bool {
    // SAFETY: a live context has a live runtime; the call only reads its queue.
    unsafe { qjs::JS_IsJobPending(qjs::JS_GetRuntime(ctx.as_raw().as_ptr())) }
}

/// Runs one microtask. Returns its exception; only `queueMicrotask` jobs throw.
fn run_job<'js>(ctx: &Ctx<'js>) -> Result<(), Value<'js>> {
    let mut origin = MaybeUninit::uninit();
    // SAFETY: a live context has a live runtime; `origin` is written, and not read here,
    // because this runtime has one context, so an exception is pending in `ctx`.
    let status = unsafe { qjs::JS_ExecutePendingJob(qjs::JS_GetRuntime(ctx.as_raw().as_ptr()), origin.as_mut_ptr()) };
    if status < 0 { Err(ctx.catch()) } else { Ok(()) }
}
