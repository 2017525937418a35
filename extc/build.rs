//! Embeds prebuilt artifacts into this crate: the files of the folder that `PIJS_EMBED` names, a cache that `pi ext supply`
//! has filled. Without the variable nothing is embedded, and supplied packages are fetched and compiled on first use.
//!
//! ```text
//! artifacts/KEY.artifact      compiled host modules and supplied packages
//! artifacts/KEY.data          what was made of supplied packages
//! packages/NAME@VERSION.tgz   packages of which files are read while extensions run
//! ```

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

/// The environment variable that names the folder to embed.
const EMBED: &str = "PIJS_EMBED";

/// Prefix of the tarball of the package whose documentation models read.
const DOCUMENTED: &str = "@earendil-works+pi-coding-agent@";

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo::rerun-if-env-changed={EMBED}");
    let mut files = Vec::new();
    if let Some(folder) = env::var_os(EMBED).filter(|folder| !folder.is_empty()) {
        let folder = PathBuf::from(folder);
        println!("cargo::rerun-if-changed={}", folder.display());
        for file in names(&folder.join("artifacts"))? {
            if file.ends_with(".artifact") || file.ends_with(".data") {
                files.push((folder.join("artifacts").join(&file), file));
            }
        }
        for file in names(&folder.join("packages"))? {
            if file.starts_with(DOCUMENTED) {
                files.push((folder.join("packages").join(&file), file));
            }
        }
        if files.is_empty() {
            return Err(format!("{}: `pi ext supply` has put nothing there to carry", folder.display()).into());
        }
    }
    let mut table = String::from("&[\n");
    for (path, name) in &files {
        println!("cargo::rerun-if-changed={}", path.display());
        writeln!(table, "    ({name:?}, include_bytes!({:?})),", path.canonicalize()?)?;
    }
    table.push(']');
    fs::write(PathBuf::from(env::var("OUT_DIR")?).join("embedded.rs"), table)?;
    Ok(())
}

/// Returns the names in a folder, sorted.
fn names(folder: &Path) -> io::Result<Vec<String>> {
    let named = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", folder.display()));
    let entries = fs::read_dir(folder).map_err(named)?;
    let mut names: Vec<String> =
        entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect::<io::Result<_>>()?;
    names.sort();
    Ok(names)
}
