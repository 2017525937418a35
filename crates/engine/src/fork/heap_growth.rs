//! Faults in the pages of a growing heap many at a time.
//!
//! The C library extends the heap by 132 KiB and writes to its pages one after the other, and the first write to each page is a
//! page fault. A worker that loads an extension takes thousands of them, each of which costs more than to fill the page: one sixth
//! of its time was measured in a virtual machine. So the first allocation on new pages faults in the next pages as well.
//!
//! [`HeapGrowth`] is for a process with one thread, whose blocks are in one heap. What is faulted in too early is less than
//! [`STEP`], and an idle worker returns it. [`fault_in`] is for a buffer that is about to be filled.

use std::cell::Cell;

/// Maximum size in bytes of the range that one call faults in, so that a large block does not become resident as a whole.
const STEP: usize = 256 << 10;
/// Smallest page size. With larger pages the system rejects most ranges, and pages are faulted in as usual.
const PAGE: usize = 4 << 10;
/// End of the range in a process that does not fault in pages ahead.
const OFF: usize = usize::MAX;

/// The end of the heap's pages that were faulted in.
#[derive(Debug)]
pub(crate) struct HeapGrowth {
    end: Cell<usize>,
}

impl HeapGrowth {
    /// Creates the state of a process that does not fault in pages ahead.
    pub(crate) fn off() -> Self {
        Self { end: Cell::new(OFF) }
    }

    /// Starts to fault in pages ahead, beyond the current end of the heap: pages below it may be shared with the zygote. Also
    /// called after memory was returned to the system.
    pub(crate) fn restart(&self) {
        self.end.set(heap_end());
    }

    /// Returns whether pages are faulted in ahead.
    pub(crate) fn is_on(&self) -> bool {
        self.end.get() != OFF
    }

    /// Faults in the pages from a new block on, if it lies beyond the known end.
    #[inline]
    pub(crate) fn reach(&self, block: *mut u8, bytes: usize) {
        if block.addr().saturating_add(bytes) > self.end.get() {
            self.extend(block);
        }
    }

    #[cold]
    fn extend(&self, block: *mut u8) {
        let start = block.addr().max(self.end.get()) & !(PAGE - 1);
        let end = heap_end().min(start + STEP) & !(PAGE - 1);
        // A block beyond the heap is a mapping of its own.
        if start < end {
            let pages = std::ptr::without_provenance_mut(start);
            // SAFETY: the pages belong to the heap, and their content does not change: a page that was not written to is zero.
            let done = unsafe { libc::madvise(pages, end - start, libc::MADV_POPULATE_WRITE) };
            // Kernels before 5.14 do not support this.
            self.end.set(if done == 0 { end } else { OFF });
        }
    }
}

/// Faults in the pages of a new buffer. Without support by the system, they are faulted in when they are written to.
pub fn fault_in(buffer: &mut [u8]) {
    let range = buffer.as_mut_ptr_range();
    let (start, end) = (range.start.addr().next_multiple_of(PAGE), range.end.addr() & !(PAGE - 1));
    if start < end {
        let pages = range.start.with_addr(start).cast();
        // SAFETY: the pages are within the exclusively borrowed buffer, and their content does not change.
        unsafe { libc::madvise(pages, end - start, libc::MADV_POPULATE_WRITE) };
    }
}

/// Returns the end of the heap.
fn heap_end() -> usize {
    // SAFETY: zero moves nothing.
    unsafe { libc::sbrk(0) }.addr()
}

#[cfg(test)]
mod tests {
    use super::{HeapGrowth, OFF, PAGE, STEP, fault_in, heap_end};

    fn block(at: usize) -> *mut u8 {
        std::ptr::without_provenance_mut(at)
    }

    #[test]
    fn only_the_heap_is_faulted_in_and_in_steps() {
        let growth = HeapGrowth::off();
        growth.reach(block(heap_end()), PAGE);
        assert_eq!(growth.end.get(), OFF, "it is off");
        growth.restart();
        let end = growth.end.get();
        growth.reach(block(end - PAGE), PAGE);
        growth.reach(block(usize::MAX / 2), PAGE);
        assert_eq!(growth.end.get(), end, "no block of the heap lies beyond its end");
        let grown = STEP + 3 * PAGE;
        // SAFETY: extends the heap; the C library's allocator notices that and starts a new area behind it.
        unsafe { libc::sbrk(isize::try_from(grown).expect("a small number")) };
        growth.reach(block(end + 16), 16);
        assert!((end..=end + STEP).contains(&growth.end.get()), "one step");
        let first = growth.end.get();
        growth.reach(block(end + 32), 16);
        assert_eq!(growth.end.get(), first, "these pages were reached before");
        growth.reach(block(first), 16);
        assert!(growth.end.get() > first && growth.end.get() <= heap_end());
    }

    #[test]
    fn a_buffer_keeps_its_content() {
        for length in [0, 1, PAGE, 3 * PAGE + 5] {
            let mut buffer = vec![7; length];
            fault_in(&mut buffer);
            assert_eq!(buffer, vec![7; length]);
        }
    }
}
