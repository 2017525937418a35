//! Supply: the pure packages that pi hands to its extensions, as the real npm packages.
//!
//! typebox, pi-tui and the pure helpers of pi's other packages are not reimplemented: the lock file (`fixtures/supply/lock.json`)
//! pins each package by version and sha512, the caller that starts a session fetches the packages that its extensions import, and
//! [`Unit::compile`] compiles them to an artifact next to the host module set. This program contains no code of these packages.
//!
//! ```text
//! unit "typebox"            modules typebox, typebox/compile, typebox/value     (shared chunks: one class each)
//! unit "pi-tui"             module  @earendil-works/pi-tui
//! unit "pi-coding-agent"    module  @earendil-works/pi-coding-agent/dist/..., one for each file with a name that
//!                                   our own @earendil-works/pi-coding-agent lacks
//! unit "pi-agent-core"      likewise; its rarely used part is a separate unit, "pi-agent-harness"
//! ```
//!
//! | type | for |
//! |---|---|
//! | [`Supply`] | the lock file: which unit serves which module |
//! | [`Unit`] | modules that are compiled together, and the packages they are made of |
//! | [`Pinned`] | one package by version and digest |
//!
//! Invariants: an extension that imports nothing from a unit does not load it; the fetching caller has checked the compiled files
//! against the digests of the lock file; no script of a package runs. *Parts* add names to a host module of ours: where both have
//! a name, ours takes precedence, and only the files of the imported names are evaluated. A file with authority (keys, the
//! loading of code) is *replaced* inside its unit by a host module of ours, which uses hostcalls.
//!
//! `host_imports` of an artifact names the supplied modules that it imports, including those of facades. [`Supply::unit_of`]
//! returns the unit of a module, and the `host_imports` of that unit name the units that it needs in turn.
//! `Package::with_supplied` passes them to the realm after the host modules and before the extension.

use crate::cache::{Cache, Key};
use crate::embedded;
use serde::Deserialize;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::OnceLock;

/// The committed lock file.
const LOCK: &str = include_str!("../../fixtures/supply/lock.json");

/// The id that the MAC of generated data is bound to.
const MADE: &str = "pijs:supply:made";

/// The packages that this program supplies, by unit.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Supply {
    version: u32,
    units: BTreeMap<String, Unit>,
}

/// Modules that are compiled together and share common code in chunks.
///
/// ```no_run
/// let unit = pijs_extc::Supply::pinned().units().next().expect("the lock file lists some");
/// // A folder whose `node_modules` holds `unit.packages()`, each checked against its digest.
/// let artifact = unit.compile("/tmp/fetched".as_ref(), None)?;
/// # Ok::<(), pijs_extc::BuildFailure>(())
/// ```
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Unit {
    #[serde(skip)]
    name: String,
    packages: BTreeMap<String, Pin>,
    pub(crate) modules: BTreeMap<String, Offer>,
    /// Replacements by a host module or another unit. Keys are files of the packages, and imports in them; `FILE IMPORT` is an
    /// import in one file only.
    #[serde(default)]
    replaces: BTreeMap<String, String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Pin {
    version: String,
    integrity: String,
    licence: String,
}

/// A package of a unit, pinned by digest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pinned<'a> {
    /// Name on npm.
    pub name: &'a str,
    /// The only permitted version.
    pub version: &'a str,
    /// SHA-512 of the tarball, as `sha512-...`.
    pub integrity: &'a str,
    /// Licence from its `package.json`.
    pub licence: &'a str,
}

/// The exports of one module of a unit.
#[derive(Debug, Deserialize)]
#[serde(untagged, deny_unknown_fields)]
pub(crate) enum Offer {
    /// All exports of one file, which replace a host module.
    Whole { from: String, names: BTreeSet<String> },
    /// Selected names, each with its file, in addition to the exports of a host module of ours.
    Parts { parts: BTreeMap<String, String> },
}

impl Supply {
    /// Returns the supplied packages that this program's lock file pins.
    pub fn pinned() -> &'static Supply {
        static PINNED: OnceLock<Supply> = OnceLock::new();
        PINNED.get_or_init(|| {
            let mut supply: Supply = serde_json::from_str(LOCK).expect("the committed lock file is well-formed");
            assert_eq!(supply.version, 1, "the lock file is of this program");
            for (name, unit) in &mut supply.units {
                unit.name.clone_from(name);
            }
            supply
        })
    }

    /// Iterates all units, by name.
    pub fn units(&self) -> impl Iterator<Item = &Unit> {
        self.units.values()
    }

    /// Returns the unit that serves a module, by the specifier in `host_imports` of an artifact.
    pub fn unit_of(&self, specifier: &str) -> Option<&Unit> {
        self.units().find(|unit| unit.serves(specifier))
    }

    /// Iterates the units that serve whole host modules and nothing else: typebox and pi-tui.
    pub fn whole_units(&self) -> impl Iterator<Item = &Unit> {
        self.units().filter(|unit| unit.modules.values().all(|offer| matches!(offer, Offer::Whole { .. })))
    }

    /// Returns whether a unit serves a host module as a whole.
    pub(crate) fn has_module(&self, specifier: &str) -> bool {
        matches!(self.offer(specifier), Some(Offer::Whole { .. }))
    }

    /// Returns the names of a module that is served as a whole.
    pub(crate) fn names(&self, specifier: &str) -> Option<&BTreeSet<String>> {
        match self.offer(specifier) {
            Some(Offer::Whole { names, .. }) => Some(names),
            _ => None,
        }
    }

    /// Returns the names that units add to a host module, each with its module. Several units may add names.
    pub(crate) fn parts<'a>(&'a self, host_module: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> {
        let offers = self.units().filter_map(move |unit| unit.modules.get(host_module));
        let parts = offers.filter_map(|offer| match offer {
            Offer::Parts { parts } => Some(parts),
            Offer::Whole { .. } => None,
        });
        parts.flatten().map(|(name, file)| (name.as_str(), file.as_str()))
    }

    /// Returns the unit of this name.
    pub fn unit(&self, name: &str) -> Option<&Unit> {
        self.units.get(name)
    }

    /// Returns the data that `program` generated from the supplied packages on its last run, as stored by
    /// [`keep_made`](Self::keep_made) or embedded in this program.
    pub fn made(cache: Option<&Cache>, program: &str) -> Option<Cow<'static, [u8]>> {
        let key = Self::key_of(program);
        embedded::data(&key).map(Cow::Borrowed).or_else(|| cache?.load_data(&key, MADE).map(Cow::Owned))
    }

    /// Stores the data that `program` generated from the supplied packages, until the program or the lock file changes.
    ///
    /// # Errors
    ///
    /// Fails if the cache cannot be written; the program has to run again next time.
    pub fn keep_made(cache: &Cache, program: &str, made: &[u8]) -> io::Result<()> {
        cache.store_data(&Self::key_of(program), MADE, made)
    }

    fn key_of(program: &str) -> Key {
        let mut key = Key::builder("made of supplied packages");
        key.field(Self::fingerprint()).field(program.as_bytes());
        key.finish()
    }

    fn offer(&self, specifier: &str) -> Option<&Offer> {
        self.units().find_map(|unit| unit.modules.get(specifier))
    }

    /// Returns a digest that changes whenever the lock file changes.
    pub(crate) fn fingerprint() -> &'static [u8] {
        LOCK.as_bytes()
    }
}

impl Unit {
    /// Returns the unit's name in the lock file.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Iterates the unit's packages, including dependencies, by name.
    pub fn packages(&self) -> impl Iterator<Item = Pinned<'_>> {
        self.packages.iter().map(|(name, pin)| Pinned {
            name,
            version: &pin.version,
            integrity: &pin.integrity,
            licence: &pin.licence,
        })
    }

    /// Returns whether a module is a part of a supplied package. Called for every import of every extension.
    fn serves(&self, specifier: &str) -> bool {
        let is_part = |offer: &Offer| match offer {
            Offer::Whole { .. } => false,
            Offer::Parts { parts } => parts.values().any(|file| file == specifier),
        };
        // A part may come from another unit's module.
        matches!(self.modules.get(specifier), Some(Offer::Whole { .. }))
            || self.holds(specifier) && self.modules.values().any(is_part)
    }

    /// Iterates files and imports that a host module replaces, each with its specifier.
    pub(crate) fn replaces(&self) -> impl Iterator<Item = (&str, &str)> {
        self.replaces.iter().map(|(replaced, specifier)| (replaced.as_str(), specifier.as_str()))
    }

    /// Returns whether a file is in one of the unit's packages.
    pub(crate) fn holds(&self, file: &str) -> bool {
        self.packages.keys().any(|name| file.strip_prefix(name.as_str()).is_some_and(|rest| rest.starts_with('/')))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interface::{HostInterface, HostName};

    #[test]
    fn every_package_is_pinned_by_version_and_sha512() {
        let mut seen = 0;
        for package in Supply::pinned().units().flat_map(Unit::packages) {
            assert!(package.integrity.starts_with("sha512-"), "{package:?}");
            assert!(package.version.split('.').all(|part| part.parse::<u32>().is_ok()), "{package:?}");
            seen += 1;
        }
        assert!(seen > 3, "the lock file lists {seen} packages");
    }

    #[test]
    fn stored_data_is_found_by_its_program_if_unchanged() {
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::open(dir.path(), pijs_artifact::InstallKey::from_bytes([7; 32]));
        assert_eq!(Supply::made(Some(&cache), "p"), None);
        Supply::keep_made(&cache, "p", b"words").unwrap();
        assert_eq!(Supply::made(Some(&cache), "p").as_deref(), Some(&b"words"[..]));
        assert_eq!(Supply::made(Some(&cache), "another"), None);
        let kept = std::fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().path());
        let data = kept.into_iter().find(|path| path.extension().is_some_and(|extension| extension == "data")).unwrap();
        std::fs::write(data, b"swords").unwrap();
        assert_eq!(Supply::made(Some(&cache), "p"), None, "what somebody else wrote is not ours");
    }

    #[test]
    fn a_module_is_served_by_the_unit_that_offers_it() {
        for unit in Supply::pinned().units() {
            for (specifier, offer) in &unit.modules {
                let own: Vec<&String> = match offer {
                    Offer::Whole { .. } => vec![specifier],
                    Offer::Parts { parts } => parts.values().filter(|file| unit.holds(file)).collect(),
                };
                for module in own {
                    assert_eq!(Supply::pinned().unit_of(module).map(Unit::name), Some(unit.name()), "{module}");
                }
            }
        }
    }

    #[test]
    fn licences_are_on_the_permitted_list() {
        for package in Supply::pinned().units().flat_map(Unit::packages) {
            assert!(
                ["MIT", "ISC", "BSD-3-Clause", "Apache-2.0", "BlueOak-1.0.0"].contains(&package.licence),
                "{package:?}"
            );
        }
    }

    #[test]
    fn parts_extend_host_modules_from_pinned_packages() {
        let host = HostInterface::embedded();
        for unit in Supply::pinned().units() {
            for (specifier, offer) in &unit.modules {
                let files: Vec<&String> = match offer {
                    Offer::Whole { from, .. } => vec![from],
                    Offer::Parts { parts } => {
                        let own = pijs_node_compat::MODULES.iter().any(|module| module.specifier == specifier);
                        assert!(own, "parts stand beside {specifier}, which is not there");
                        parts.values().collect()
                    }
                };
                for file in files {
                    let elsewhere = Supply::pinned().unit_of(file).is_some();
                    let known = unit.holds(file) || elsewhere || host.has_module(file);
                    assert!(known, "{specifier} takes {file} from no package of {}", unit.name);
                }
            }
        }
    }

    #[test]
    fn a_file_is_replaced_by_a_host_module_or_another_unit() {
        let mut seen = 0;
        for (replaced, specifier) in Supply::pinned().units().flat_map(Unit::replaces) {
            let own = pijs_node_compat::MODULES.iter().any(|module| module.specifier == specifier);
            let known = own || Supply::pinned().unit_of(specifier).is_some();
            assert!(known, "{replaced} leads to {specifier}, which is not there");
            seen += 1;
        }
        assert!(seen > 3, "{seen} files are replaced");
    }

    #[test]
    fn both_typebox_names_and_both_scopes_lead_to_a_unit() {
        for written in ["typebox", "@sinclair/typebox/value", "@mariozechner/pi-tui", "@earendil-works/pi-tui"] {
            let Some(HostName::Package(specifier)) = HostName::of(written) else {
                panic!("{written} is a host package")
            };
            assert!(Supply::pinned().unit_of(&specifier).is_some(), "{written}");
        }
        assert!(Supply::pinned().unit_of("node:fs").is_none());
    }
}
