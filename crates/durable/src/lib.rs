//! Files that must survive a crash, a full disk and a second process.
//!
//! - [`Disk`] is what everybody holds. It replaces files whole ([`Disk::replace`]: temporary file in the same folder,
//!   flush, rename, flush of the folder), makes private folders and checks them, reads within a bound, and removes.
//! - [`Disk::beneath`] is the same for folders that somebody else laid out: no link in them leads anywhere.
//! - [`Appender`] writes whole lines to a file that only grows: a line is there or it is not.
//! - [`Lock`] is the kernel's lock on a file: it ends with its process, and says who holds it.
//! - [`Vfs`] is the seam below all of them; [`fault`] puts a fault at the n-th operation, and forgets what was not
//!   flushed, to show that what is written here is true.
//!
//! Always holds: under a name that was ever complete there is something complete; nothing is followed through a link
//! unless the caller says so; new files are readable by their user alone whatever the umask; a failed flush counts as
//! a failed write.
//!
//! Settings, locks, trust and grants are written with [`Disk::replace`]; the ledger and session files with an [`Appender`].

#![warn(missing_docs)]

mod append;
#[cfg(unix)]
mod beneath;
mod disk;
mod entropy;
pub mod fault;
mod lock;
mod os;
mod owner;
mod private;
mod vfs;

pub use append::{Appender, Opened};
pub use disk::{Disk, Replace, open_real, read_judged, read_regular, without_links, write_all};
pub use entropy::entropy;
pub use lock::{Lock, LockError};
pub use os::OsVfs;
pub use owner::{Owner, is_running};
pub use vfs::{Kind, LinkInTheWay, Open, Stat, Vfs, VfsFile};
