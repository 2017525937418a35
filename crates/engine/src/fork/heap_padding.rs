//! Fills the gaps of the heap before a process forks.
//!
//! A worker shares each page with its zygote until one of them writes to it. Blocks that were freed while the engine was created
//! and the runtime evaluated are scattered over the whole heap, so each of a worker's first allocations would make another shared
//! page private. When the gaps are filled, a worker's allocations are adjacent, on new pages.
//!
//! The padding is never written to or freed; it is on pages that are resident anyway.

use rquickjs::{Ctx, qjs};
use std::alloc::{Layout, alloc, dealloc};

/// Alignment of the C library's allocations.
const ALIGN: usize = 16;
/// Upper bound of the size of a gap in bytes: the allocator takes larger blocks from the system and returns them to it.
const MAX_GAP: usize = 64 << 10;
/// Below this size in bytes, every multiple of the alignment is tried, because a gap may have exactly that size. Above it,
/// halving the size is enough, because the rest of a gap is a smaller gap.
const EXACT_BELOW: usize = 1 << 10;
/// Upper bound of the number of gaps per size.
const MAX_BLOCKS: usize = 1 << 16;
/// Block sizes of the engine's arenas of 4 KiB (`arena_block_sizes`).
const BLOCKS: [usize; 31] = [
    16, 24, 32, 40, 48, 56, 64, 72, 80, 88, 96, 104, 112, 120, 128, 144, 160, 176, 192, 208, 224, 240, 256, 288, 320,
    352, 384, 416, 448, 480, 512,
];
/// The header at the start of each block (`JSMallocBlockHeader`).
const BLOCK_HEADER: usize = 8;

/// Upper bound of the memory in bytes that filling the engine's arenas takes: less than one arena for each size.
pub(crate) const MAX_ARENA_BYTES: u64 = 1 << 20;

/// Fills the free blocks of the engine's arenas, and leaves one arena per size with a single block in use: starting a new arena
/// would write to the previous one. `used` returns the bytes that the engine has allocated so far.
pub(crate) fn fill_engine(ctx: &Ctx<'_>, used: impl Fn() -> u64) {
    // SAFETY: a live context has a live runtime.
    let runtime = unsafe { qjs::JS_GetRuntime(ctx.as_raw().as_ptr()) };
    for size in BLOCKS.map(|block| block - BLOCK_HEADER) {
        for _ in 0..MAX_BLOCKS {
            let before = used();
            // SAFETY: the runtime lives and is not in use elsewhere; the block is never read.
            let block = unsafe { qjs::js_malloc_rt(runtime, size as qjs::size_t) };
            if block.is_null() {
                return;
            }
            if used() != before {
                break;
            }
        }
    }
}

/// Fills the free blocks below the end of the heap. Works with an allocator that prefers free blocks to a longer heap, like that
/// of the GNU C library; any other allocator wastes some memory.
pub(crate) fn fill_heap() {
    let sizes = std::iter::successors(Some(MAX_GAP), |size| Some(size / 2)).take_while(|size| *size > EXACT_BELOW);
    let sizes = sizes.chain((ALIGN..=EXACT_BELOW).rev().step_by(ALIGN));
    let layout =
        |size| Layout::from_size_align(size, ALIGN).expect("the size is small and the alignment is a power of two");
    // SAFETY: the size is not zero.
    let allocate = |size| unsafe { alloc(layout(size)) };
    // Larger than any gap, so it is at the end of the heap: a later block after it did not fill a gap.
    let end = allocate(MAX_GAP);
    let mut filled = 0;
    for size in sizes {
        loop {
            let piece = allocate(size);
            if piece.is_null() || piece > end || filled == MAX_BLOCKS {
                if !piece.is_null() {
                    // SAFETY: allocated above with this layout, and unused.
                    unsafe { dealloc(piece, layout(size)) };
                }
                break;
            }
            filled += 1;
        }
    }
    if !end.is_null() {
        // SAFETY: allocated above with this layout, and unused.
        unsafe { dealloc(end, layout(MAX_GAP)) };
    }
}

/// Returns unused pages of the allocator to the system, including pages between blocks in use.
///
/// The allocator keeps freed memory below a block that is in use. A long-running process calls this after work that needed much
/// memory for a short time.
pub fn return_free_memory() {
    #[cfg(target_env = "gnu")]
    // SAFETY: affects free memory only.
    unsafe {
        libc::malloc_trim(0);
    }
}
