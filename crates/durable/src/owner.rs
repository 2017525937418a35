//! Owners of temporary files, encoded in their names, so that files of dead processes can be removed and those of running ones
//! are kept.

use crate::entropy::entropy;
use std::io;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// A process. The token distinguishes it from another process with the same id, after a restart or in a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Owner {
    /// Process id.
    pub pid: u32,
    /// Random number, chosen at the first use in this process.
    pub token: u32,
}

/// Distinguishes the temporary files of one process.
static NEXT: AtomicU64 = AtomicU64::new(0);

impl Owner {
    /// Returns this process. Fails if the system has no randomness, because names would not be unique then.
    pub fn this_process() -> io::Result<Self> {
        static TOKEN: OnceLock<u32> = OnceLock::new();
        let token = match TOKEN.get() {
            Some(token) => *token,
            None => {
                let mut bytes = [0; 4];
                entropy(&mut bytes)?;
                *TOKEN.get_or_init(|| u32::from_le_bytes(bytes))
            }
        };
        Ok(Self { pid: std::process::id(), token })
    }

    /// Returns an unused name: `LABEL.PID-TOKEN-N.tmp`.
    pub fn temporary_name(&self, label: &str) -> String {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        format!("{label}.{}-{:08x}-{number}.tmp", self.pid, self.token)
    }

    /// Returns the owner in a name that [`Owner::temporary_name`] created; `None` for any other name.
    pub fn of(name: &str) -> Option<Self> {
        let (_, made) = name.strip_suffix(".tmp")?.rsplit_once('.')?;
        let mut parts = made.split('-');
        let (pid, token, number) = (parts.next()?, parts.next()?, parts.next()?);
        number.parse::<u64>().ok()?;
        let token = u32::from_str_radix(token, 16).ok().filter(|_| token.len() == 8)?;
        parts.next().is_none().then_some(())?;
        Some(Self { pid: pid.parse().ok()?, token })
    }

    /// Returns whether `other` may remove the files of this owner, because the owner's process has ended.
    pub fn is_gone(&self, other: Self) -> bool {
        if self.pid == other.pid { self.token != other.token } else { !is_running(self.pid) }
    }
}

/// Returns whether a process with this id exists.
#[cfg(unix)]
pub fn is_running(pid: u32) -> bool {
    use rustix::io::Errno;
    use rustix::process::{Pid, test_kill_process};
    let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) else { return false };
    !matches!(test_kill_process(pid), Err(Errno::SRCH))
}

/// Returns `true`, because this system cannot report whether a process exists.
#[cfg(not(unix))]
pub fn is_running(_pid: u32) -> bool {
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_temporary_name_contains_its_owner() {
        let this = Owner::this_process().expect("randomness");
        let name = this.temporary_name("settings.json");
        assert_eq!(Owner::of(&name), Some(this), "{name}");
        assert_ne!(this.temporary_name("settings.json"), name);
        for other in
            ["settings.json", "a.tmp", "a.1-2.tmp", "a.1-00000002-x.tmp", "a.1-2-3.tmp", "a.1-00000002-3-4.tmp"]
        {
            assert_eq!(Owner::of(other), None, "{other}");
        }
    }

    #[test]
    fn only_dead_owners_are_gone() {
        let this = Owner { pid: std::process::id(), token: 1 };
        assert!(!this.is_gone(this));
        assert!(Owner { token: 2, ..this }.is_gone(this), "an earlier process of the same number");
        assert!(!Owner { pid: 1, token: 2 }.is_gone(this), "process 1 always runs");
        assert!(Owner { pid: u32::MAX - 1, token: 2 }.is_gone(this), "no process has this number");
    }
}
