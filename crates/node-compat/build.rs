//! Embeds the TypeScript of the host modules.
//!
//! Each `index.txt` in the folders of [`INDEXED`] lists `specifier path`, one module per line, with the path relative to the
//! index. The result is one table sorted by specifier. A digest of all modules is generated with it: a program identifies its
//! module set at the start without reading a megabyte.

use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

/// Folders below `modules/` with an index. Listed here, because watching `modules/` itself would build everything again when
/// npm installs the compiler of TypeScript in it.
const INDEXED: [&str; 3] = ["", "pi", "rummy"];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let root = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?).join("modules");
    let mut modules = BTreeMap::new();
    for folder in INDEXED.map(|name| root.join(name)) {
        let index = folder.join("index.txt");
        println!("cargo::rerun-if-changed={}", index.display());
        for (number, line) in fs::read_to_string(&index)?.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let place = format!("{}:{}", index.display(), number + 1);
            let (specifier, path) = line.split_once(' ').ok_or(format!("{place}: expected `specifier path`"))?;
            let file = folder.join(path.trim());
            if !file.is_file() {
                return Err(format!("{place}: {} does not exist", file.display()).into());
            }
            if modules.insert(specifier.to_owned(), file).is_some() {
                return Err(format!("{place}: {specifier} is listed twice").into());
            }
        }
    }

    let mut table = String::from("&[\n");
    let mut digest = Sha256::new();
    for (specifier, file) in &modules {
        println!("cargo::rerun-if-changed={}", file.display());
        let shown = Path::new("modules").join(file.strip_prefix(&root)?).to_string_lossy().replace('\\', "/");
        writeln!(
            table,
            "    HostModule {{ specifier: {specifier:?}, path: {shown:?}, source: include_str!({file:?}) }},",
        )?;
        for field in [specifier.as_bytes(), shown.as_bytes(), &fs::read(file)?] {
            digest.update((field.len() as u64).to_le_bytes());
            digest.update(field);
        }
    }
    table.push(']');
    let out = PathBuf::from(env::var("OUT_DIR")?);
    fs::write(out.join("modules.rs"), table)?;
    fs::write(out.join("digest.rs"), format!("{:?}", <[u8; 32]>::from(digest.finalize())))?;
    Ok(())
}
