//! Files that must survive a crash, a full disk and concurrent processes.
//!
//! - [`Disk`] is the main interface. It replaces files atomically ([`Disk::replace`]: temporary file in the same folder, flush,
//!   rename, flush of the folder), creates and checks private folders, reads within a limit, and removes files.
//! - [`Disk::beneath`] returns a disk for folders with foreign content, which does not follow links below them.
//! - [`CheckedFiles`] identifies files that were checked before another process opens them by name.
//! - [`Appender`] writes whole lines to an append-only file: a line is complete or absent.
//! - [`Links`] lists the names that symbolic links give to a path.
//! - [`Lock`] is a file lock of the kernel: it is released when its process ends, and names its holder.
//! - [`Vfs`] is the interface on which all of these are based; [`fault`] injects a fault at the n-th operation, and discards data
//!   that was not flushed, to test these guarantees.
//!
//! Invariants: a name that was ever complete stays complete; links are followed only on request; new files are accessible to
//! their user only, independent of the umask; a failed flush is treated as a failed write.
//!
//! Settings, locks, trust and grants are written with [`Disk::replace`]; the ledger and session files with an [`Appender`].

#![warn(missing_docs)]

mod append;
#[cfg(unix)]
mod beneath;
#[cfg(unix)]
mod checked_files;
mod disk;
mod entropy;
pub mod fault;
mod links;
mod lock;
mod os;
mod own_temporary;
mod owner;
mod private;
mod vfs;

pub use append::{Appender, Opened};
#[cfg(unix)]
pub use checked_files::{CheckedFiles, FileIdentity};
pub use disk::{Disk, Replace, open_real, read_judged, read_regular, real_path, without_links, write_all};
pub use entropy::entropy;
pub use links::{Links, normal};
pub use lock::{Lock, LockError};
pub use os::OsVfs;
pub use own_temporary::OwnTemporary;
pub use owner::{Owner, is_running};
pub use vfs::{Kind, LinkInTheWay, Open, Stat, Vfs, VfsFile};
