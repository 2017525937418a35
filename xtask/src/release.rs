//! Builds a release of `pi`: one program that neither fetches nor compiles the packages that pi supplies to extensions.
//!
//! ```text
//! cargo build --release            pi without embedded packages
//! pi ext supply                    fetches the pinned packages, compiles them and the host modules into a separate cache
//! cargo build --profile dist       pi and extc with that cache embedded (PIJS_EMBED, see extc/build.rs)
//! pi ext supply, PI_OFFLINE        check: with an empty home and no network, nothing is missing
//! ```

use anyhow::{Context, Result, bail};
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The file with the licences of supplied packages.
const LICENCES: &str = "LICENCES-supplied.txt";

/// Builds a release and returns its files.
///
/// Fails if `cargo` fails, if the packages cannot be fetched, or if the built program still has to fetch a package.
pub fn build() -> Result<Vec<PathBuf>> {
    let target = PathBuf::from(cargo_metadata::MetadataCommand::new().no_deps().exec()?.target_directory);
    let folder = target.join("dist");
    let (pi, extc, licences) = (folder.join(exe("pi")), folder.join(exe("extc")), folder.join(LICENCES));
    fs::create_dir_all(&folder)?;
    let caches = target.join("carried");
    if caches.exists() {
        fs::remove_dir_all(&caches).with_context(|| format!("emptying {}", caches.display()))?;
    }
    cargo(&["--release", "--package", "pijs-cli", "--bin", "pi"], None)?;
    // Runs with this user's home, which may configure the registry.
    let plain = target.join("release").join(exe("pi"));
    run(Command::new(plain).args(["ext", "supply", "--licences"]).arg(&licences).env("XDG_CACHE_HOME", &caches))?;
    let carried = caches.join("pijs");
    let all = ["--package", "pijs-cli", "--bin", "pi", "--bin", "extc"];
    cargo(&[&["--profile", "dist"], &all[..]].concat(), Some(&carried))?;
    is_whole(&pi, &caches.join("empty"))?;
    Ok(vec![pi, extc, licences])
}

/// Fails if the program, started in an empty home, still has to fetch or compile a package.
fn is_whole(pi: &Path, home: &Path) -> Result<()> {
    let cache = home.join("cache");
    fs::create_dir_all(&cache)?;
    let mut command = Command::new(pi);
    command.args(["ext", "supply"]).current_dir(home);
    run(command.env("HOME", home).env("XDG_CACHE_HOME", &cache).env("PI_OFFLINE", "1"))
        .context("the release would have to fetch something")?;
    let compiled = cache.join("pijs/artifacts");
    if compiled.exists() && fs::read_dir(&compiled)?.next().is_some() {
        bail!("the release compiled something that it was to carry: see {}", compiled.display());
    }
    Ok(())
}

fn exe(name: &str) -> String {
    format!("{name}{}", std::env::consts::EXE_SUFFIX)
}

fn cargo(arguments: &[&str], carried: Option<&Path>) -> Result<()> {
    let mut command = Command::new(env!("CARGO"));
    command.args(["build", "--locked"]).args(arguments);
    run(command.env("PIJS_EMBED", carried.map_or(OsStr::new(""), Path::as_os_str)))
}

fn run(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| format!("starting {command:?}"))?;
    if status.success() { Ok(()) } else { bail!("{command:?}: {status}") }
}
