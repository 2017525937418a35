//! Memory, fuel, jobs and interrupts: every limit that can end a turn.
//!
//! The engine's own errors are not reliable: an out-of-memory exception may be a bare `null` and guest
//! code may swallow it, and an interrupt leaves no trace in a job that was not awaited. So each limit
//! sets a flag in [`Meter`], and [`Meter::verdict`] reads the flags at the end of a turn, whatever the
//! turn itself returned.
//!
//! | type | description |
//! |---|---|
//! | [`Meter`] | flags and counters of one realm |
//! | [`LimitedAllocator`] | the engine's allocator: counts, fails past the limit, and flags the failure |
//! | [`Interrupter`] | stops a turn from another thread |
//!
//! The engine polls for interrupts every 10,000 loop edges or calls, so fuel is the same on every machine. For the same reason,
//! allocation sizes are those of Rust's layout, not those of the C library.

use crate::collector::Collector;
#[cfg(target_os = "linux")]
use crate::fork::heap_growth::HeapGrowth;
use pijs_protocol::wire::Limits;
use pijs_protocol::{Termination, guard};
use rquickjs::allocator::{Allocator, RustAllocator};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

/// Stops a running turn from another thread.
///
/// The stop takes effect at the next interrupt poll; long-running native built-ins do not poll.
#[derive(Debug, Clone)]
pub struct Interrupter {
    state: Arc<AtomicU8>,
}

const IDLE: u8 = 0;
const RUNNING: u8 = 1;
const STOPPED: u8 = 2;

impl Interrupter {
    fn new() -> Self {
        Self { state: Arc::new(AtomicU8::new(IDLE)) }
    }

    /// Returns whether the realm is dropped, so that a watchdog can stop.
    pub fn is_orphaned(&self) -> bool {
        Arc::strong_count(&self.state) == 1
    }

    /// Ends the turn that is running now with `Timeout { quota: "deadline" }`; has no effect between turns.
    pub fn interrupt(&self) {
        // Only a running turn can be stopped: a late watchdog must not stop the next one.
        let _ = self.state.compare_exchange(RUNNING, STOPPED, Ordering::Relaxed, Ordering::Relaxed);
    }
}

/// The limit that the code of a turn has exceeded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StopReason {
    Fuel,
    Jobs,
    Deadline,
}

/// Counters and flags of one realm.
#[derive(Debug)]
pub(crate) struct Meter {
    /// Not a limit: decides when garbage is collected before the heap reaches its own.
    pub(crate) collector: Collector,
    heap: Rc<Heap>,
    interrupter: Interrupter,
    jobs_limit: u32,
    fuel_limit: Cell<u64>,
    polls: Cell<u64>,
    jobs: Cell<u32>,
    stop: Cell<Option<StopReason>>,
    bug: RefCell<Option<String>>,
}

impl Meter {
    pub(crate) fn new(limits: &Limits) -> Self {
        Self {
            collector: Collector::new(limits),
            heap: Rc::new(Heap {
                used: Cell::new(0),
                limit: Cell::new(usize::MAX),
                refused: Cell::new(false),
                #[cfg(target_os = "linux")]
                growth: HeapGrowth::off(),
            }),
            interrupter: Interrupter::new(),
            jobs_limit: limits.jobs,
            fuel_limit: Cell::new(limits.fuel),
            polls: Cell::new(0),
            jobs: Cell::new(0),
            stop: Cell::new(None),
            bug: RefCell::new(None),
        }
    }

    /// Enforces the memory limit from now on; returns `false` if the heap already exceeds it.
    ///
    /// Must be called after the context is created: the engine does not survive running out of memory while it creates one.
    pub(crate) fn limit_memory(&self, limits: &Limits) -> bool {
        let limit = usize::try_from(limits.memory_bytes).unwrap_or(usize::MAX);
        self.heap.limit.set(limit);
        self.heap.used.get() <= limit
    }

    pub(crate) fn allocator(&self) -> LimitedAllocator {
        LimitedAllocator { heap: Rc::clone(&self.heap) }
    }

    pub(crate) fn interrupter(&self) -> Interrupter {
        self.interrupter.clone()
    }

    /// Resets the counters for a turn.
    pub(crate) fn begin(&self, fuel: u64) {
        self.fuel_limit.set(fuel);
        self.polls.set(0);
        self.jobs.set(0);
        self.interrupter.state.store(RUNNING, Ordering::Relaxed);
    }

    /// Marks the turn as ended for the [`Interrupter`].
    pub(crate) fn end(&self) {
        self.interrupter.state.store(IDLE, Ordering::Relaxed);
    }

    /// Handles an interrupt of the engine; `true` ends the running code, which cannot catch this.
    pub(crate) fn poll(&self) -> bool {
        self.poll_many(1)
    }

    /// Counts several polls at once, for code whose fuel is measured in another unit.
    pub(crate) fn poll_many(&self, polls: u64) -> bool {
        self.polls.set(self.polls.get().saturating_add(polls));
        if self.interrupter.state.load(Ordering::Relaxed) == STOPPED {
            self.stop.set(Some(StopReason::Deadline));
        } else if self.polls.get() > self.fuel_limit.get() && guard!(EngineFuel) {
            self.stop.set(Some(StopReason::Fuel));
        }
        self.must_stop()
    }

    /// Counts a microtask; returns `false` if the turn has used up its jobs.
    pub(crate) fn count_job(&self) -> bool {
        if self.jobs.get() >= self.jobs_limit && guard!(EngineJobs) {
            self.stop.set(Some(StopReason::Jobs));
            return false;
        }
        self.jobs.set(self.jobs.get().saturating_add(1));
        true
    }

    /// Records a host bug; only the first one is reported.
    pub(crate) fn report_bug(&self, detail: String) {
        self.bug.borrow_mut().get_or_insert(detail);
    }

    /// Returns whether the turn must end.
    pub(crate) fn must_stop(&self) -> bool {
        self.stop.get().is_some() || self.heap.refused.get() || self.bug.borrow().is_some()
    }

    /// Returns the termination of the realm, if any. A host bug takes precedence over its consequences, and exhausted memory over
    /// an interrupt.
    pub(crate) fn verdict(&self) -> Option<Termination> {
        if let Some(detail) = self.bug.borrow().clone() {
            return Some(Termination::HostBug { detail });
        }
        if self.heap.refused.get() {
            return Some(Termination::OutOfMemory);
        }
        let quota = match self.stop.get()? {
            StopReason::Fuel => "fuel",
            StopReason::Jobs => "jobs",
            StopReason::Deadline => "deadline",
        };
        Some(Termination::Timeout { quota: quota.to_owned() })
    }

    /// Reserves memory outside of the engine's heap; returns `false`, without ending the realm, if there is too little. One
    /// eighth of the limit stays reserved for the engine, because a refused allocation of the engine ends the realm.
    pub(crate) fn take_memory(&self, bytes: usize) -> bool {
        let total = self.heap.used.get().saturating_add(bytes);
        let limit = self.heap.limit.get();
        let fits = total <= limit - limit / 8 || !guard!(EngineMemory);
        if fits {
            self.heap.used.set(total);
        }
        fits
    }

    /// Releases memory that [`take_memory`](Self::take_memory) reserved.
    pub(crate) fn give_back_memory(&self, bytes: usize) {
        self.heap.used.set(self.heap.used.get().saturating_sub(bytes));
    }

    /// Returns whether the engine could allocate this many bytes more.
    #[cfg(target_os = "linux")]
    pub(crate) fn has_free_memory(&self, bytes: u64) -> bool {
        (self.heap.limit.get() as u64).saturating_sub(self.heap_bytes()) >= bytes
    }

    pub(crate) fn fuel(&self) -> u64 {
        self.polls.get()
    }

    pub(crate) fn jobs(&self) -> u32 {
        self.jobs.get()
    }

    pub(crate) fn heap_bytes(&self) -> u64 {
        self.heap.used.get() as u64
    }

    /// Returns the state that faults in pages ahead of allocations.
    #[cfg(target_os = "linux")]
    pub(crate) fn heap_growth(&self) -> &HeapGrowth {
        &self.heap.growth
    }
}

#[derive(Debug)]
struct Heap {
    used: Cell<usize>,
    limit: Cell<usize>,
    refused: Cell<bool>,
    #[cfg(target_os = "linux")]
    growth: HeapGrowth,
}

impl Heap {
    /// Returns whether `more` bytes fit under the limit; records a refusal.
    fn admits(&self, more: usize) -> bool {
        let fits =
            self.used.get().checked_add(more).is_some_and(|total| total <= self.limit.get()) || !guard!(EngineMemory);
        if !fits {
            self.refused.set(true);
        }
        fits
    }
}

/// Rust's allocator behind the realm's memory limit.
pub(crate) struct LimitedAllocator {
    heap: Rc<Heap>,
}

impl LimitedAllocator {
    /// Counts a fresh allocation, or records that the system has no memory.
    fn count_allocation(&self, ptr: *mut u8) -> *mut u8 {
        if ptr.is_null() {
            self.heap.refused.set(true);
        } else {
            // SAFETY: `ptr` was returned by `RustAllocator` a moment ago and is live.
            let size = unsafe { RustAllocator::usable_size(ptr) };
            self.heap.used.set(self.heap.used.get() + size);
            #[cfg(target_os = "linux")]
            self.heap.growth.reach(ptr, size);
        }
        ptr
    }
}

// SAFETY: every pointer comes from `RustAllocator`, which upholds the trait's contract, or is null,
// which the contract allows; sizes are only counted.
unsafe impl Allocator for LimitedAllocator {
    fn alloc(&mut self, size: usize) -> *mut u8 {
        if !self.heap.admits(size) {
            return std::ptr::null_mut();
        }
        self.count_allocation(RustAllocator.alloc(size))
    }

    fn calloc(&mut self, count: usize, size: usize) -> *mut u8 {
        match count.checked_mul(size) {
            Some(0) => std::ptr::null_mut(),
            Some(total) if self.heap.admits(total) => self.count_allocation(RustAllocator.calloc(count, size)),
            Some(_) => std::ptr::null_mut(),
            None => {
                self.heap.refused.set(true);
                std::ptr::null_mut()
            }
        }
    }

    unsafe fn dealloc(&mut self, ptr: *mut u8) {
        // SAFETY: the caller passes a live pointer of this allocator, so of `RustAllocator`.
        let size = unsafe { RustAllocator::usable_size(ptr) };
        self.heap.used.set(self.heap.used.get() - size);
        // SAFETY: as above; it is not used afterwards.
        unsafe { RustAllocator.dealloc(ptr) }
    }

    unsafe fn realloc(&mut self, ptr: *mut u8, new_size: usize) -> *mut u8 {
        // SAFETY: the caller passes a live pointer of this allocator, so of `RustAllocator`.
        let old_size = unsafe { RustAllocator::usable_size(ptr) };
        if new_size > old_size && !self.heap.admits(new_size - old_size) {
            return std::ptr::null_mut();
        }
        // SAFETY: as above; on failure the old allocation stays and remains counted.
        let moved = unsafe { RustAllocator.realloc(ptr, new_size) };
        if moved.is_null() {
            self.heap.refused.set(true);
            return moved;
        }
        self.heap.used.set(self.heap.used.get() - old_size);
        self.count_allocation(moved)
    }

    unsafe fn usable_size(ptr: *mut u8) -> usize {
        // SAFETY: the caller passes a live pointer of this allocator, so of `RustAllocator`.
        unsafe { RustAllocator::usable_size(ptr) }
    }
}
