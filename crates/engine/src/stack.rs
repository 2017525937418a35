//! How much of its thread's stack a realm may have.
//!
//! Whoever recurses in an extension has pi's room in mind, which is that of Node: some ten thousand calls. The engine needs about
//! 650 bytes for the plainest one, so a realm gets megabytes where its thread has them. What is not the realm's is for the
//! host that it calls from its deepest frame, and for what the engine does without counting.

/// Bytes of its thread's stack that a realm leaves alone.
const RESERVE: usize = 2 << 20;

/// What a realm has on every thread, however small: it survives every deep nesting on one of 2 MB.
const LEAST: usize = 256 << 10;

/// Bytes of stack for a realm that may have `wanted` and is made here.
///
/// Asks the system, so it has to come before a worker is sealed.
pub(crate) fn room_for(wanted: u64) -> usize {
    let wanted = usize::try_from(wanted).unwrap_or(usize::MAX);
    let room = left().map_or(0, |left| left.saturating_sub(RESERVE));
    wanted.min(room.max(LEAST))
}

/// Bytes between the current frame and the end of this thread's stack, where the system says where that is.
fn left() -> Option<usize> {
    let here = 0_u8;
    Some((&raw const here).addr().saturating_sub(end()?))
}

/// The lowest address of this thread's stack. The main thread's grows up to the limit that it began with.
#[cfg(target_os = "linux")]
fn end() -> Option<usize> {
    let mut attributes = std::mem::MaybeUninit::<libc::pthread_attr_t>::uninit();
    let (mut lowest, mut size) = (std::ptr::null_mut(), 0);
    // SAFETY: the calls fill in what they are given, which is read only after they said that they did; the attributes
    // are given back once, and nothing in them is kept.
    let known = unsafe {
        libc::pthread_getattr_np(libc::pthread_self(), attributes.as_mut_ptr()) == 0 && {
            let known = libc::pthread_attr_getstack(attributes.as_ptr(), &raw mut lowest, &raw mut size) == 0;
            libc::pthread_attr_destroy(attributes.as_mut_ptr());
            known
        }
    };
    known.then(|| lowest.addr())
}

/// The lowest address of this thread's stack.
#[cfg(target_os = "macos")]
fn end() -> Option<usize> {
    // SAFETY: both only read what the system keeps about the calling thread.
    let (highest, size) = unsafe {
        let this = libc::pthread_self();
        (libc::pthread_get_stackaddr_np(this), libc::pthread_get_stacksize_np(this))
    };
    highest.addr().checked_sub(size)
}

#[cfg(not(any(target_os = "linux", target_os = "macos")))]
fn end() -> Option<usize> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn on_thread_of(bytes: usize, wanted: u64) -> usize {
        std::thread::Builder::new().stack_size(bytes).spawn(move || room_for(wanted)).unwrap().join().unwrap()
    }

    #[test]
    fn a_small_thread_gives_the_least_and_nobody_gets_more_than_wanted() {
        assert_eq!(on_thread_of(2 << 20, 6 << 20), LEAST);
        assert_eq!(on_thread_of(64 << 20, 1 << 20), 1 << 20);
        assert_eq!(on_thread_of(2 << 20, 1_000), 1_000);
    }

    #[test]
    #[cfg(any(target_os = "linux", target_os = "macos"))]
    fn what_a_thread_has_is_known_but_for_the_reserve() {
        let room = on_thread_of(8 << 20, u64::MAX);
        assert!((5 << 20..=6 << 20).contains(&room), "{room}");
    }
}
