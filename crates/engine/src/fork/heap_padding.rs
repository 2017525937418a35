//! Room between allocations, filled before a process is copied.
//!
//! A copy shares each page with its original until one of them writes to it. What was freed while an engine was made and
//! the runtime evaluated lies scattered over the whole heap, so a copy's first allocations would each land on another
//! shared page and make it its own. Once these gaps are in use, a copy's allocations lie side by side on new pages.
//!
//! The filling is never written to and never freed: it is address space on pages that are there anyway.

use rquickjs::{Ctx, qjs};
use std::alloc::{Layout, alloc, dealloc};

/// As the C library aligns what it hands out.
const ALIGN: usize = 16;
/// No gap is larger: what is larger comes from the system and goes back to it.
const LARGEST: usize = 64 << 10;
/// Up to here each size is tried: a gap may be exactly that large. Above, halves are enough, for what they leave of a
/// gap is a smaller one.
const EXACT_BELOW: usize = 1 << 10;
/// More than any heap has gaps.
const MOST: usize = 1 << 16;
/// Sizes of the blocks that the engine cuts from pieces of 4 KiB (`arena_block_sizes`).
const BLOCKS: [usize; 31] = [
    16, 24, 32, 40, 48, 56, 64, 72, 80, 88, 96, 104, 112, 120, 128, 144, 160, 176, 192, 208, 224, 240, 256, 288, 320,
    352, 384, 416, 448, 480, 512,
];
/// The header at the start of each block (`JSMallocBlockHeader`).
const BLOCK_HEADER: usize = 8;

/// The engine is given less than this for it: a piece of 4 KiB for each size.
pub(crate) const MOST_BYTES: u64 = 1 << 20;

/// Fills the free blocks of the engine's own pieces, and leaves one piece of each size that is empty but for one block:
/// to begin another would write to the one before it. `used` says how much the engine was given so far, in bytes.
pub(crate) fn fill_engine(ctx: &Ctx<'_>, used: impl Fn() -> u64) {
    // SAFETY: a live context has a live runtime.
    let runtime = unsafe { qjs::JS_GetRuntime(ctx.as_raw().as_ptr()) };
    for size in BLOCKS.map(|block| block - BLOCK_HEADER) {
        for _ in 0..MOST {
            let before = used();
            // SAFETY: the runtime lives and nobody else uses it; the memory is not looked at.
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

/// Fills what the program's allocator has free below the end of its heap. For one that hands out what is free
/// before it makes its heap longer, as the GNU C library does; with another one some memory is wasted.
pub(crate) fn fill_heap() {
    let sizes = std::iter::successors(Some(LARGEST), |size| Some(size / 2)).take_while(|size| *size > EXACT_BELOW);
    let sizes = sizes.chain((ALIGN..=EXACT_BELOW).rev().step_by(ALIGN));
    let layout = |size| Layout::from_size_align(size, ALIGN).expect("a small size and a power of two");
    // SAFETY: not of size zero.
    let take = |size| unsafe { alloc(layout(size)) };
    // Larger than what lies free, so at the end of the heap: what comes from behind it filled no gap.
    let end = take(LARGEST);
    let mut filled = 0;
    for size in sizes {
        loop {
            let piece = take(size);
            if piece.is_null() || piece > end || filled == MOST {
                if !piece.is_null() {
                    // SAFETY: of this size, taken a moment ago, and nobody has it.
                    unsafe { dealloc(piece, layout(size)) };
                }
                break;
            }
            filled += 1;
        }
    }
    if !end.is_null() {
        // SAFETY: of this size, and nobody has it.
        unsafe { dealloc(end, layout(LARGEST)) };
    }
}

/// Gives pages on which nothing is allocated back to the system.
pub(crate) fn give_back() {
    #[cfg(target_env = "gnu")]
    // SAFETY: touches nothing but what is free.
    unsafe {
        libc::malloc_trim(0);
    }
}
