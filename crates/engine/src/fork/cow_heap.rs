//! Returns unmodified pages to the zygote's copy-on-write heap.
//!
//! A forked worker shares each page with its zygote until it writes to the page, and the engine writes to every object that it
//! uses, because reference counts are stored in the objects. A function that was called and has returned often leaves a page with
//! the same content, but the page is private from then on. So the zygote maps its heap from a memory file before it forks. An
//! idle worker compares its heap with the file and drops the pages that are equal; the kernel then maps the file's page again,
//! which all workers share.

#![expect(clippy::disallowed_methods, reason = "`/proc` says where the heap of this process is")]

use super::refuse_threads;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;

/// Required page size of the system. With larger pages, the heap is not mapped from a file.
const PAGE: usize = 4 << 10;

/// A part of the heap, and its content at the time of the fork.
#[derive(Debug)]
pub(crate) struct CowHeap {
    heap: NonNull<u8>,
    /// Read-only view of the memory file.
    file: NonNull<u8>,
    bytes: usize,
}

impl CowHeap {
    /// Maps the heap of this process from a memory file, up to a new allocation at its end. This allocation is never freed: while
    /// it exists, the allocator does not return memory below it to the system.
    ///
    /// # Errors
    ///
    /// Fails in a process with other threads, which may write at any time, if the allocator does not use the heap, and if the
    /// system has no memory files. The heap is not changed then.
    pub(crate) fn create() -> io::Result<Self> {
        refuse_threads()?;
        let pin: &'static mut [u8; 64] = Box::leak(Box::new([0; 64]));
        let end = pin.as_ptr().addr() & !(PAGE - 1);
        let (start, _) = heap_around(&std::fs::read_to_string("/proc/self/maps")?, end)
            .filter(|(start, _)| start % PAGE == 0 && *start < end && is_page(PAGE))
            .ok_or_else(|| io::Error::other("the allocator keeps its memory elsewhere"))?;
        let heap = NonNull::new(pin.as_mut_ptr().with_addr(start)).expect("the address of a heap is not zero");
        let bytes = end - start;
        lay_on_file(heap, bytes).map(|file| Self { heap, file, bytes })
    }

    /// Drops each page whose content equals the file's. Requires that no other thread writes to the heap; a forked worker has one
    /// thread.
    pub(crate) fn drop_unchanged(&self) {
        let mut same = 0;
        for at in (0..=self.bytes).step_by(PAGE) {
            // SAFETY: one page of two mappings of `bytes` bytes, which are whole pages and stay mapped. `memcmp` compares them,
            // because Rust knows no objects there.
            let is_same = at < self.bytes
                && unsafe {
                    libc::memcmp(self.heap.add(at).as_ptr().cast(), self.file.add(at).as_ptr().cast(), PAGE) == 0
                };
            if is_same {
                same += PAGE;
            } else if same > 0 {
                // SAFETY: these pages equal the file's pages, which replace them.
                unsafe { libc::madvise(self.heap.add(at - same).as_ptr().cast(), same, libc::MADV_DONTNEED) };
                same = 0;
            }
        }
        // SAFETY: the view is backed by the file, so dropped pages are read from it again.
        unsafe { libc::madvise(self.file.as_ptr().cast(), self.bytes, libc::MADV_DONTNEED) };
    }
}

/// Returns whether this is the system's page size.
fn is_page(bytes: usize) -> bool {
    // SAFETY: `sysconf` takes and returns numbers.
    usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }) == Ok(bytes)
}

/// Finds the start and the end of the heap that contains an address, in the text of `/proc/self/maps`. Merges adjacent mappings.
fn heap_around(maps: &str, address: usize) -> Option<(usize, usize)> {
    let pieces = maps.lines().filter(|line| line.ends_with("[heap]")).filter_map(|line| {
        let (start, end) = line.split(' ').next()?.split_once('-')?;
        Some((usize::from_str_radix(start, 16).ok()?, usize::from_str_radix(end, 16).ok()?))
    });
    let (start, end) =
        pieces.reduce(|(start, end), piece| if piece.0 == end { (start, piece.1) } else { (start, end) })?;
    (start..end).contains(&address).then_some((start, end))
}

/// Replaces `bytes` of the heap by a private mapping of a memory file with the same content, and returns a read-only view of the
/// file.
fn lay_on_file(heap: NonNull<u8>, bytes: usize) -> io::Result<NonNull<u8>> {
    // SAFETY: the name ends with NUL.
    let file = unsafe { libc::memfd_create(c"pijs-heap".as_ptr(), libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING) };
    if file == -1 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: opened above, and not shared.
    let file = unsafe { OwnedFd::from_raw_fd(file) };
    let map = |address: *mut libc::c_void, access, how| {
        // SAFETY: the caller passes a free address or the heap itself.
        let mapped = unsafe { libc::mmap(address, bytes, access, how, file.as_raw_fd(), 0) };
        if mapped == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(mapped) }
    };
    // Nothing may be allocated or freed from here on, because the file must contain the final content of the heap.
    let mut written = 0;
    while written < bytes {
        // SAFETY: the kernel reads mapped memory.
        match unsafe { libc::write(file.as_raw_fd(), heap.add(written).as_ptr().cast(), bytes - written) } {
            0 => return Err(io::ErrorKind::WriteZero.into()),
            more => written += usize::try_from(more).map_err(|_| io::Error::last_os_error())?,
        }
    }
    const FOR_GOOD: libc::c_int = libc::F_SEAL_WRITE | libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;
    // SAFETY: an open descriptor and a number.
    if unsafe { libc::fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, FOR_GOOD) } == -1 {
        return Err(io::Error::last_os_error());
    }
    // The kernel chooses the address.
    let view = map(std::ptr::null_mut(), libc::PROT_READ, libc::MAP_SHARED)?;
    // Maps the file over the heap: the same bytes, on pages that become private when this process writes to them.
    let placed = map(heap.as_ptr().cast(), libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_FIXED);
    if let Err(error) = placed {
        // SAFETY: mapped above, and not published.
        unsafe { libc::munmap(view, bytes) };
        return Err(error);
    }
    // Faults the pages in before the fork, so that each worker need not; kernels before 5.14 do not support this, and workers
    // then fault them in. SAFETY: the range is the heap, and nothing is written.
    unsafe { libc::madvise(heap.as_ptr().cast(), bytes, libc::MADV_POPULATE_READ) };
    Ok(NonNull::new(view.cast()).expect("the kernel does not map address zero"))
}

/// Returns the unused stack below this frame to the system. Has no effect on a thread other than the main thread, because the
/// size of the memory below another thread's stack is unknown.
#[inline(never)]
pub(crate) fn release_stack() {
    /// Size of the released range in bytes; more than any turn uses.
    const DEPTH: usize = 4 << 20;
    /// Size in bytes of the range that is kept for the calls of this function.
    const KEPT: usize = 2 * PAGE;
    let here = 0_u8;
    // SAFETY: both calls return numbers.
    let is_first = unsafe { libc::getpid() == libc::gettid() };
    let end = ((&raw const here).addr() & !(PAGE - 1)).saturating_sub(KEPT);
    if is_first && end > DEPTH {
        // SAFETY: no live object lies below the frames of the calls made here, and the kernel keeps far more than this free of
        // other mappings below the main thread's stack. An unmapped range is an error without an effect.
        unsafe { libc::madvise(std::ptr::without_provenance_mut(end - DEPTH), DEPTH, libc::MADV_DONTNEED) };
    }
}

/// Drops the resident pages of the program's files: code and read-only data. The kernel maps them again from the page cache when
/// they are used, so other threads may run meanwhile. A process calls this after work whose code it seldom needs again.
pub fn release_program_pages() {
    unsafe extern "C" fn of_file(
        info: *mut libc::dl_phdr_info,
        _size: libc::size_t,
        _data: *mut libc::c_void,
    ) -> libc::c_int {
        // SAFETY: the C library's list of loaded objects, which lives as long as the call.
        let (base, segments) = unsafe {
            let info = &*info;
            (info.dlpi_addr, std::slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum)))
        };
        for segment in
            segments.iter().filter(|segment| segment.p_type == libc::PT_LOAD && segment.p_flags & libc::PF_W == 0)
        {
            let Ok(start) = usize::try_from(base.wrapping_add(segment.p_vaddr)) else { continue };
            let Ok(bytes) = usize::try_from(segment.p_memsz) else { continue };
            let page = start & !(PAGE - 1);
            // SAFETY: this process never writes to the mapping, so the file provides the same bytes again.
            unsafe { libc::madvise(std::ptr::without_provenance_mut(page), start - page + bytes, libc::MADV_DONTNEED) };
        }
        0
    }
    // SAFETY: calls the function above for each loaded object and keeps no pointer.
    unsafe { libc::dl_iterate_phdr(Some(of_file), std::ptr::null_mut()) };
}

#[cfg(test)]
mod tests {
    use super::{CowHeap, NonNull, PAGE, heap_around, io, lay_on_file};

    /// Maps new pages, each filled with its number.
    fn pages(count: usize) -> NonNull<u8> {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let bytes = count * PAGE;
        // SAFETY: a new mapping at an address of the kernel's choice.
        let start =
            unsafe { libc::mmap(std::ptr::null_mut(), bytes, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0) };
        assert_ne!(start, libc::MAP_FAILED, "{}", io::Error::last_os_error());
        for page in 0..count {
            // SAFETY: mapped above, writable, and used by this test only.
            unsafe { start.cast::<u8>().add(page * PAGE).write_bytes(u8::try_from(page).unwrap_or(u8::MAX), PAGE) };
        }
        NonNull::new(start.cast()).expect("not at zero")
    }

    /// Counts the pages that are private to this process.
    fn own(heap: NonNull<u8>) -> usize {
        let maps = std::fs::read_to_string("/proc/self/smaps").expect("the kernel tells");
        let ours = format!("{:x}-", heap.addr());
        let lines = maps.lines().skip_while(|line| !line.starts_with(&ours)).skip(1);
        let mut copied = lines.filter_map(|line| line.strip_prefix("Anonymous:"));
        let kb: usize = copied.next().expect("it is mapped").trim().trim_end_matches(" kB").parse().expect("a number");
        kb / (PAGE / 1024)
    }

    #[test]
    fn unchanged_pages_are_dropped_and_others_kept() {
        let heap = pages(5);
        let file = lay_on_file(heap, 5 * PAGE).expect("the system has files in memory");
        let cow_heap = CowHeap { heap, file, bytes: 5 * PAGE };
        // SAFETY: within five pages that this test has mapped.
        let read = |place: usize| unsafe { heap.add(place).read_volatile() };
        // SAFETY: within five writable pages that this test has mapped.
        let write = |place: usize, value: u8| unsafe { heap.add(place).write_volatile(value) };
        write(PAGE + 7, 99);
        write(2 * PAGE, 99);
        write(2 * PAGE, 2);
        write(4 * PAGE + 5, 98);
        write(3 * PAGE, 3);
        assert_eq!(own(heap), 4);
        cow_heap.drop_unchanged();
        assert_eq!(own(heap), 2, "two pages are as they were");
        let now = [0, PAGE, PAGE + 7, 2 * PAGE, 3 * PAGE, 4 * PAGE, 4 * PAGE + 5].map(read);
        assert_eq!(now, [0, 1, 99, 2, 3, 4, 98]);
        write(2 * PAGE + 1, 97);
        cow_heap.drop_unchanged();
        assert_eq!([read(2 * PAGE), read(2 * PAGE + 1)], [2, 97]);
    }

    /// No worker can change the file, whose pages all workers share.
    #[test]
    fn the_file_cannot_be_changed() {
        let heap = pages(2);
        let file = lay_on_file(heap, 2 * PAGE).expect("the system has files in memory");
        // SAFETY: a mapping of this test; the call is expected to fail.
        let allowed = unsafe { libc::mprotect(file.as_ptr().cast(), PAGE, libc::PROT_READ | libc::PROT_WRITE) };
        assert_eq!((allowed, io::Error::last_os_error().raw_os_error()), (-1, Some(libc::EACCES)));
    }

    #[test]
    fn a_heap_is_found_among_mappings() {
        let maps = "\
55d0a000-55d0b000 r--p 00000000 08:01 12 /usr/bin/pi
56000000-56021000 rw-p 00000000 00:00 0 [heap]
56021000-56042000 rw-p 00000000 00:00 0 [heap]
7f000000-7f021000 rw-p 00000000 00:00 0
";
        let whole = Some((0x5600_0000, 0x5604_2000));
        assert_eq!(heap_around(maps, 0x5600_0000), whole);
        assert_eq!(heap_around(maps, 0x5604_1fff), whole);
        assert_eq!(heap_around(maps, 0x5604_2000), None, "allocated elsewhere");
        assert_eq!(heap_around("7f000000-7f021000 rw-p 00000000 00:00 0\n", 0x7f00_0000), None);
        assert_eq!(heap_around("zz-yy rw-p [heap]\n", 0), None);
    }
}
