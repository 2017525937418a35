//! Switches that take one guard away, so that a test can see it is needed.
//!
//! A security check that no test misses may as well not be there. Every check that an attack case relies on asks
//! [`is_up`] with its own name first; the attack suite runs each case twice, once as it ships and once with the
//! guard down, and the second run must go red.
//!
//! Without the feature `guard-switches` the question is a constant and disappears. Only the package `pijs-tests`
//! turns the feature on (`cargo xtask deps` refuses it anywhere else), so no binary that is shipped has switches.

/// Names the guards that are down, separated by commas; read once per process, and only with the feature on.
pub const VARIABLE: &str = "PIJS_GUARDS_DOWN";

/// Whether this build has switches at all; other test-only hooks ask this.
pub const SWITCHES: bool = cfg!(feature = "guard-switches");

/// Whether the guard of this name stands.
///
/// `name` is `AREA.CHECK`, in lower case with dashes: `fs.beneath`, `gate.scope`.
#[cfg(not(feature = "guard-switches"))]
#[inline(always)]
#[must_use]
pub const fn is_up(_name: &str) -> bool {
    true
}

/// Whether the guard of this name stands.
///
/// `name` is `AREA.CHECK`, in lower case with dashes: `fs.beneath`, `gate.scope`.
#[cfg(feature = "guard-switches")]
#[must_use]
pub fn is_up(name: &str) -> bool {
    !down().iter().any(|lowered| lowered == name)
}

/// The guards that are down in this process; none in a build without switches.
#[cfg(not(feature = "guard-switches"))]
#[must_use]
pub const fn down() -> &'static [String] {
    &[]
}

/// The guards that are down in this process; none in a build without switches.
#[cfg(feature = "guard-switches")]
#[must_use]
pub fn down() -> &'static [String] {
    static DOWN: std::sync::OnceLock<Vec<String>> = std::sync::OnceLock::new();
    DOWN.get_or_init(|| {
        std::env::var(VARIABLE)
            .unwrap_or_default()
            .split(',')
            .map(|name| name.trim().to_owned())
            .filter(|name| !name.is_empty())
            .collect()
    })
}
