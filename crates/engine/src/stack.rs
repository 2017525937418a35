//! Computes the stack size of a realm from that of its thread.
//!
//! Recursive extensions expect the stack of Node: some ten thousand calls. The engine needs about 650 bytes for the simplest
//! call, so a realm gets megabytes if its thread has them. The reserve is for the host, which the realm may call from its deepest
//! frame, and for engine code that does not check the stack.

/// Number of bytes of the thread's stack that a realm may not use.
const RESERVED_BYTES: usize = 2 << 20;

/// Minimum stack of a realm on every thread, in bytes: it survives all nesting tests on a thread of 2 MB.
const MIN_BYTES: usize = 256 << 10;

/// Returns the stack size of a realm that requests `wanted` bytes and is created on this thread.
///
/// Queries the system, so it must be called before a worker is sealed.
pub(crate) fn stack_size(wanted: u64) -> usize {
    size_within(available(), wanted)
}

/// Returns the stack size of a realm that requests `wanted` bytes on a thread with `available` bytes, if they are known.
fn size_within(available: Option<usize>, wanted: u64) -> usize {
    let wanted = usize::try_from(wanted).unwrap_or(usize::MAX);
    let room = available.map_or(0, |available| available.saturating_sub(RESERVED_BYTES));
    wanted.min(room.max(MIN_BYTES))
}

/// Returns the number of bytes between the current frame and the end of this thread's stack, if the system reports it.
fn available() -> Option<usize> {
    let here = 0_u8;
    Some((&raw const here).addr().saturating_sub(lowest_address()?))
}

/// Returns the lowest address of this thread's stack. The main thread's stack grows up to the limit at its start.
#[cfg(target_os = "linux")]
fn lowest_address() -> Option<usize> {
    let mut attributes = std::mem::MaybeUninit::<libc::pthread_attr_t>::uninit();
    let (mut lowest, mut size) = (std::ptr::null_mut(), 0);
    // SAFETY: the calls fill in their arguments, which are read only after success; the attributes are destroyed once.
    let known = unsafe {
        libc::pthread_getattr_np(libc::pthread_self(), attributes.as_mut_ptr()) == 0 && {
            let known = libc::pthread_attr_getstack(attributes.as_ptr(), &raw mut lowest, &raw mut size) == 0;
            libc::pthread_attr_destroy(attributes.as_mut_ptr());
            known
        }
    };
    known.then(|| lowest.addr())
}

/// Returns the lowest address of this thread's stack.
#[cfg(target_os = "macos")]
fn lowest_address() -> Option<usize> {
    // SAFETY: both calls read properties of the calling thread.
    let (highest, size) = unsafe {
        let this = libc::pthread_self();
        (libc::pthread_get_stackaddr_np(this), libc::pthread_get_stacksize_np(this))
    };
    highest.addr().checked_sub(size)
}

#[cfg(not(any(target_os = "linux", target_os = "macos")))]
fn lowest_address() -> Option<usize> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_size_lies_between_the_minimum_and_the_request() {
        assert_eq!(size_within(Some(2 << 20), 6 << 20), MIN_BYTES);
        assert_eq!(size_within(Some(64 << 20), 1 << 20), 1 << 20);
        assert_eq!(size_within(Some(2 << 20), 1_000), 1_000);
        assert_eq!(size_within(None, 6 << 20), MIN_BYTES);
    }

    #[test]
    #[cfg(any(target_os = "linux", target_os = "macos"))]
    fn the_reserve_is_subtracted_from_the_stack_of_the_thread() {
        // No upper bound: the system may give a thread the larger stack of one that has ended.
        let of_thread = || (available().expect("the system reports it"), stack_size(u64::MAX));
        let (all, room) = std::thread::Builder::new().stack_size(8 << 20).spawn(of_thread).unwrap().join().unwrap();
        assert!(all >= 7 << 20, "{all}");
        assert!((all - room).abs_diff(RESERVED_BYTES) < 64 << 10, "{room} of {all}");
    }
}
