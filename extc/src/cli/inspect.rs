//! `extc inspect`: what an artifact says about itself. Its bytecode is never loaded.

use super::{FAILED, report};
use crate::prebuilt::MOST_BYTES;
use pijs_artifact::{FORMAT_VERSION, decode, digest};
use pijs_durable::read_regular;
use pijs_packages::ARTIFACT_FILE;
use std::io::{self, Write};
use std::path::Path;

pub(super) fn run(path: &Path, json: bool, out: &mut dyn Write, err: &mut dyn Write) -> io::Result<u8> {
    let in_folder = path.join(ARTIFACT_FILE);
    let path = if path.is_dir() { in_folder.as_path() } else { path };
    let read = read_regular(path, MOST_BYTES).map_err(|error| error.to_string());
    let decoded = read.and_then(|bytes| match decode(&bytes) {
        Ok(artifact) => Ok((bytes, artifact)),
        Err(error) => Err(error.to_string()),
    });
    let (bytes, artifact) = match decoded {
        Ok(decoded) => decoded,
        Err(error) => {
            writeln!(err, "{}: {error}", path.display())?;
            return Ok(FAILED);
        }
    };
    let metadata = &artifact.metadata;
    if json {
        let modules: Vec<_> = artifact
            .modules
            .iter()
            .map(|module| {
                serde_json::json!({
                    "specifier": module.specifier,
                    "source": digest(module.source.as_bytes()),
                    "source_bytes": module.source.len(),
                    "bytecode": module.bytecode.as_ref().map(|bytecode| digest(bytecode)),
                    "bytecode_bytes": module.bytecode.as_ref().map(|bytecode| bytecode.len()),
                    "source_map": module.source_map.is_some(),
                })
            })
            .collect();
        let value = serde_json::json!({
            "format": FORMAT_VERSION,
            "artifact": digest(&bytes),
            "metadata": metadata,
            "modules": modules,
        });
        out.write_all(report::pretty(&value).as_bytes())?;
        return Ok(0);
    }
    writeln!(out, "{} {}", crate::sanitise(&metadata.name), crate::sanitise(&metadata.version))?;
    writeln!(out, "format     {FORMAT_VERSION}, {} bytes, {}", bytes.len(), digest(&bytes))?;
    writeln!(out, "engine     {}", metadata.engine)?;
    writeln!(out, "verdict    {}", report::verdict(metadata.verdict))?;
    writeln!(out, "entries    {}", crate::sanitise(&metadata.entries.join(", ")))?;
    writeln!(out, "inputs")?;
    for (name, digest) in &metadata.inputs {
        writeln!(out, "  {:<32} {digest}", crate::sanitise(name))?;
    }
    writeln!(out, "capabilities")?;
    report::capabilities(metadata, out)?;
    writeln!(out, "modules")?;
    for module in &artifact.modules {
        let bytecode = module.bytecode.as_ref().map_or_else(|| "no".to_owned(), |bytecode| bytecode.len().to_string());
        let name = crate::sanitise(&module.specifier);
        writeln!(out, "  {name:<32} {} bytes of source, {bytecode} of bytecode", module.source.len())?;
    }
    Ok(0)
}
