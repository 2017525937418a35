//! Reads the list of cases, and fetches the packages that they need.
//!
//! Examples and packages are not in this repository. `fixtures/conformance/lock.json` names each of them by version and sha512;
//! they are fetched from the registry once and laid out as by `npm install`. Scripts of packages do not run.

use anyhow::{Context, Result, bail};
use pijs_packages::{NpmConfig, PinnedPackage, TarballCache};
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The environment variable that skips the cases of npm packages; there is no other way to skip them.
pub const OFFLINE: &str = "PIJS_CONFORMANCE_OFFLINE";

/// The kind of comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Snapshots of registrations.
    Snapshot,
    /// Traces of behaviour.
    Trace,
}

impl Kind {
    /// Returns the name in the baseline.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Snapshot => "snapshot",
            Self::Trace => "trace",
        }
    }
}

/// One case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Case {
    /// The kind of comparison.
    pub kind: Kind,
    /// `example:todo`, `npm:pi-mermaid@0.3.0`, or the scenario's name.
    pub name: String,
    /// The argument of `pi ext snapshot` or `pi ext drive`.
    pub argument: String,
    /// The document that the real pi printed.
    pub expected: PathBuf,
    /// Packages that the case needs.
    pub packages: Vec<String>,
}

impl Case {
    /// Returns the name of the case in the baseline: `trace session-name`.
    pub fn key(&self) -> String {
        format!("{} {}", self.kind.as_str(), self.name)
    }
}

#[derive(Debug, Deserialize)]
struct Listed {
    examples: Vec<Example>,
    packages: Vec<NpmPackage>,
}

#[derive(Debug, Deserialize)]
struct Example {
    name: String,
}

#[derive(Debug, Deserialize)]
struct NpmPackage {
    name: String,
    version: String,
}

/// The corpus in a folder like `fixtures/conformance`.
#[derive(Debug)]
pub struct Corpus {
    /// Snapshots, then traces, in the order of the files.
    pub cases: Vec<Case>,
    lock: Lock,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Lock {
    version: u32,
    examples: Pin,
    /// Dependencies of examples, by the example.
    example_dependencies: BTreeMap<String, Vec<Pin>>,
    packages: BTreeMap<String, Vec<PlacedPackage>>,
}

#[derive(Debug, Clone, Deserialize)]
struct Pin {
    name: String,
    version: String,
    integrity: String,
}

/// A package at its path in `node_modules`.
#[derive(Debug, Deserialize)]
struct PlacedPackage {
    at: String,
    #[serde(flatten)]
    pin: Pin,
}

impl From<&Pin> for PinnedPackage {
    fn from(pin: &Pin) -> Self {
        Self { name: pin.name.clone(), version: pin.version.clone(), integrity: pin.integrity.clone() }
    }
}

/// The folders into which examples and packages were laid out.
#[derive(Debug, Clone)]
pub struct Laid {
    /// The argument of `--examples`.
    pub examples: PathBuf,
    /// The argument of `--packages`.
    pub packages: PathBuf,
}

impl Laid {
    /// Returns the path of an entry by its name in cases, such as `example:todo`, `npm:pi-mermaid@0.3.0`.
    ///
    /// # Errors
    ///
    /// Fails for a name of another form.
    pub fn path_of(&self, entry: &str) -> Result<PathBuf> {
        if let Some(name) = entry.strip_prefix("example:") {
            let file = self.examples.join(format!("{name}.ts"));
            return Ok(if file.is_file() { file } else { self.examples.join(name) });
        }
        let package = entry.strip_prefix("npm:").context("an example or a package")?;
        let (name, _) = package.rsplit_once('@').context("NAME@VERSION")?;
        Ok(self.packages.join(package.replace('/', "+")).join("node_modules").join(name))
    }
}

impl Corpus {
    /// Reads the lists of a folder.
    ///
    /// # Errors
    ///
    /// Fails if files are missing or malformed.
    pub fn read(folder: &Path) -> Result<Self> {
        let lock: Lock = read(&folder.join("lock.json"))?;
        if lock.version != 1 {
            bail!("{}: version {} is not known", folder.join("lock.json").display(), lock.version);
        }
        let listed: Listed = read(&folder.join("dev-corpus.json"))?;
        let examples = listed.examples.iter().map(|example| format!("example:{}", example.name));
        let packages = listed.packages.iter().map(|package| format!("npm:{}@{}", package.name, package.version));
        let mut cases: Vec<Case> = examples
            .chain(packages)
            .map(|spec| {
                let file = format!("{}.json", spec.replacen(':', "--", 1).replace('/', "+"));
                Case {
                    kind: Kind::Snapshot,
                    packages: needed([spec.as_str()]),
                    expected: folder.join("expected/dev/snapshots").join(file),
                    argument: spec.clone(),
                    name: spec,
                }
            })
            .collect();
        let scenarios = folder.join("scenarios/dev");
        let mut files: Vec<PathBuf> = std::fs::read_dir(&scenarios)
            .with_context(|| scenarios.display().to_string())?
            .map(|entry| entry.map(|entry| entry.path()))
            .collect::<Result<_, _>>()?;
        files.retain(|file| file.extension().is_some_and(|extension| extension == "json"));
        files.sort();
        for file in files {
            let scenario: Value = read(&file)?;
            let entries = scenario["extensions"].as_array().into_iter().flatten().filter_map(Value::as_str);
            let name = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            cases.push(Case {
                kind: Kind::Trace,
                packages: needed(entries),
                expected: folder.join("expected/dev").join(format!("{name}.json")),
                argument: file.display().to_string(),
                name,
            });
        }
        Ok(Self { cases, lock })
    }

    /// Returns a package and its dependencies, each with its path below the folder of the layout.
    pub(crate) fn placed(&self, package: &str) -> Result<Vec<(&str, PinnedPackage)>> {
        let placed = self.lock.packages.get(package).with_context(|| format!("lock.json does not know {package}"))?;
        Ok(placed.iter().map(|placed| (placed.at.as_str(), (&placed.pin).into())).collect())
    }

    /// Returns the tarballs that [`Corpus::lay_out`] keeps below `target`.
    ///
    /// # Errors
    ///
    /// Fails if the https client cannot be created.
    pub fn depot(target: &Path, npm: NpmConfig) -> Result<TarballCache> {
        Ok(TarballCache::open(target.join("tarballs"), npm)?)
    }

    /// Fetches the examples and some packages and lays them out below `target`. Existing ones are kept.
    ///
    /// # Errors
    ///
    /// Fails if a registry cannot be reached, or sends other bytes than the lock lists.
    pub async fn lay_out<'a>(
        &self,
        names: impl IntoIterator<Item = &'a String>,
        target: &Path,
        npm: NpmConfig,
    ) -> Result<Laid> {
        let depot = Self::depot(target, npm)?;
        let pi = target.join("pi").join(&self.lock.examples.version);
        let examples = pi.join("node_modules").join(&self.lock.examples.name).join("examples/extensions");
        once(&pi, async |folder| {
            depot.unpack(&[(&self.lock.examples).into()], folder).await?;
            for (example, pins) in &self.lock.example_dependencies {
                let pins: Vec<PinnedPackage> = pins.iter().map(Into::into).collect();
                depot.unpack(&pins, &examples.join(example)).await?;
            }
            Ok(())
        })
        .await?;
        let packages = target.join("packages");
        for name in names {
            let placed = self.placed(name)?;
            let folder = packages.join(name.replace('/', "+"));
            once(&folder, async |folder| {
                for (at, package) in placed {
                    // `node_modules/a/node_modules/b` goes below `node_modules/a`.
                    let (inside, _) = at.rsplit_once("node_modules/").context("a place in node_modules")?;
                    depot.unpack(&[package], &folder.join(inside)).await?;
                }
                Ok(())
            })
            .await
            .with_context(|| format!("{name} (set {OFFLINE}=1 to leave out the cases of packages)"))?;
        }
        Ok(Laid { examples, packages })
    }
}

/// Fills a folder unless an earlier run has filled it completely: a marker is written last.
async fn once(folder: &Path, fill: impl AsyncFnOnce(&Path) -> Result<()>) -> Result<()> {
    let marker = folder.join(".complete");
    if marker.exists() {
        return Ok(());
    }
    // An incomplete folder of an earlier run is filled again.
    if folder.exists() {
        std::fs::remove_dir_all(folder).with_context(|| folder.display().to_string())?;
    }
    std::fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    fill(folder).await?;
    std::fs::write(&marker, "").with_context(|| marker.display().to_string())
}

/// Returns the npm packages that these entries refer to.
fn needed<'a>(entries: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let specs = entries.into_iter().filter_map(|entry| entry.strip_prefix("npm:"));
    specs
        .map(|spec| {
            // `@scope/name@version/file` without the file.
            let version = spec[1..].find('@').map_or(spec.len(), |at| at + 2);
            let end = spec[version..].find('/').map_or(spec.len(), |at| at + version);
            spec[..end].to_owned()
        })
        .collect()
}

fn read<T: serde::de::DeserializeOwned>(path: &Path) -> Result<T> {
    let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
    serde_json::from_str(&text).with_context(|| path.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_is_named_without_the_file_in_it() {
        let entries = ["npm:a@1.0.0", "npm:@s/b@2.0.0/x/y.ts", "example:todo", "./own.ts"];
        assert_eq!(needed(entries), ["a@1.0.0", "@s/b@2.0.0"]);
    }
}
