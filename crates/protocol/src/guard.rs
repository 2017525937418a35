//! Guards: named security checks that tests can disable to show that they are needed.
//!
//! A security check that no test depends on could be removed unnoticed. Every check that an attack case relies on evaluates
//! `guard!(Name)`, which marks its condition as a security condition. The attack suite runs each case twice, with the guard up
//! and with the guard down, and the second run must fail. [`Guard`] lists all guards.
//!
//! Without the feature `guard-switches` the macro is a constant and is compiled out. Only the package `pijs-tests` enables the
//! feature (`cargo xtask deps` refuses it anywhere else), so no shipped binary has switches.

mod list;

pub use list::Guard;

/// Environment variable with the names of the guards that are down, separated by commas. Read once per process, and only with the
/// feature.
pub const VARIABLE: &str = "PIJS_GUARDS_DOWN";

/// Whether this build has switches. Other test-only hooks check this, too.
pub const SWITCHES: bool = cfg!(feature = "guard-switches");

/// Returns whether a guard is up, by its name in [`Guard`]: `if leads_out(path) && guard!(FsBeneath) { refuse }`.
///
/// `use pijs_protocol::guard` imports both this macro and the module of the same name.
#[macro_export]
macro_rules! guard {
    ($name:ident) => {
        $crate::guard::Guard::$name.is_up()
    };
}

/// Generates [`Guard`] from lines `/// Sentence.` and `Variant = "area.check",`.
macro_rules! guards {
    ($($(#[doc = $doc:literal])+ $variant:ident = $name:literal,)+) => {
        /// A security check that an attack case disables.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Guard {
            $($(#[doc = $doc])+ $variant,)+
        }

        impl Guard {
            /// Every guard, by name.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// Returns the name that cases use, `AREA.CHECK` in lower case with dashes: `fs.beneath`.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)+
                }
            }

            /// Returns the name of the variant in the source.
            #[must_use]
            pub const fn variant(self) -> &'static str {
                match self {
                    $(Self::$variant => stringify!($variant),)+
                }
            }
        }
    };
}
use guards;

impl Guard {
    /// Returns whether the guard is up: always true in a build without switches.
    #[cfg(not(feature = "guard-switches"))]
    #[inline(always)]
    #[must_use]
    pub const fn is_up(self) -> bool {
        true
    }

    /// Returns whether the guard is up: true unless [`VARIABLE`] names it.
    #[cfg(feature = "guard-switches")]
    #[must_use]
    pub fn is_up(self) -> bool {
        !down().iter().any(|lowered| lowered == self.name())
    }
}

/// Returns the guards that are down in this process; empty in a build without switches.
#[cfg(not(feature = "guard-switches"))]
#[must_use]
pub const fn down() -> &'static [String] {
    &[]
}

/// Returns the guards that are down in this process; empty in a build without switches.
#[cfg(feature = "guard-switches")]
#[must_use]
#[expect(clippy::disallowed_methods, reason = "a test's switches come by a variable")]
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
