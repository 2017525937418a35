//! Guards: the security checks that a test lowers to see that they are needed.
//!
//! A security check that no test misses may as well not be there. Every check that an attack case relies on asks
//! `guard!(Name)` first, so that its condition reads as a security condition; the attack suite runs each case twice,
//! once as it ships and once with the guard down, and the second run must go red. [`Guard`] lists them all.
//!
//! Without the feature `guard-switches` the question is a constant and disappears. Only the package `pijs-tests`
//! turns the feature on (`cargo xtask deps` refuses it anywhere else), so no binary that is shipped has switches.

mod list;

pub use list::Guard;

/// Names the guards that are down, separated by commas; read once per process, and only with the feature on.
pub const VARIABLE: &str = "PIJS_GUARDS_DOWN";

/// Whether this build has switches at all; other test-only hooks ask this.
pub const SWITCHES: bool = cfg!(feature = "guard-switches");

/// Whether a guard stands, by its name in [`Guard`]: `if leads_out(path) && guard!(FsBeneath) { refuse }`.
///
/// `use pijs_protocol::guard` brings both this macro and the module of the same name into scope.
#[macro_export]
macro_rules! guard {
    ($name:ident) => {
        $crate::guard::Guard::$name.is_up()
    };
}

/// Makes [`Guard`] of lines `/// Sentence.` and `Variant = "area.check",`.
macro_rules! guards {
    ($($(#[doc = $doc:literal])+ $variant:ident = $name:literal,)+) => {
        /// A security check that an attack case lowers.
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

            /// Returns the name of the variant, as it stands in the source.
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
    /// Whether the guard stands: always, in a build without switches.
    #[cfg(not(feature = "guard-switches"))]
    #[inline(always)]
    #[must_use]
    pub const fn is_up(self) -> bool {
        true
    }

    /// Whether the guard stands: unless [`VARIABLE`] names it.
    #[cfg(feature = "guard-switches")]
    #[must_use]
    pub fn is_up(self) -> bool {
        !down().iter().any(|lowered| lowered == self.name())
    }
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
