//! `extc inspect`: the metadata of an artifact. Its bytecode is never loaded.

use super::{FAILED, report};
use pijs_artifact::{FORMAT_VERSION, decode, digest};
use pijs_durable::read_regular;
use pijs_extc::MAX_ARTIFACT_BYTES;
use pijs_packages::ARTIFACT_FILE;
use std::io::{self, Write};
use std::path::Path;

const TAKEN: &str =
    "extc inspect takes an extension.artifact, or the folder that holds it: write one with `extc build ENTRY -o DIR`";

pub(super) fn run(path: &Path, json: bool, out: &mut dyn Write, err: &mut dyn Write) -> io::Result<u8> {
    let in_folder = path.join(ARTIFACT_FILE);
    let path = if path.is_dir() { in_folder.as_path() } else { path };
    let read = read_regular(path, MAX_ARTIFACT_BYTES).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => "No such file or directory".to_owned(),
        _ => error.to_string(),
    });
    let decoded = read.and_then(|bytes| match decode(&bytes) {
        Ok(artifact) => Ok((bytes, artifact)),
        Err(error) => Err(error.to_string()),
    });
    let (bytes, artifact) = match decoded {
        Ok(decoded) => decoded,
        Err(error) => {
            writeln!(err, "{}: {error}\n  help: {TAKEN}", path.display())?;
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
    writeln!(out, "{} {}", pijs_extc::sanitise(&metadata.name), pijs_extc::sanitise(&metadata.version))?;
    writeln!(out, "format     {FORMAT_VERSION}, {} bytes, {}", bytes.len(), digest(&bytes))?;
    writeln!(out, "engine     {}", metadata.engine)?;
    writeln!(out, "verdict    {}", report::verdict(metadata.verdict))?;
    writeln!(out, "entries    {}", pijs_extc::sanitise(&metadata.entries.join(", ")))?;
    writeln!(out, "inputs")?;
    for (name, digest) in &metadata.inputs {
        writeln!(out, "  {:<32} {digest}", pijs_extc::sanitise(name))?;
    }
    writeln!(out, "capabilities")?;
    report::capabilities(metadata, out)?;
    writeln!(out, "modules")?;
    for module in &artifact.modules {
        let bytecode = module.bytecode.as_ref().map_or_else(|| "no".to_owned(), |bytecode| bytecode.len().to_string());
        let name = pijs_extc::sanitise(&module.specifier);
        writeln!(out, "  {name:<32} {} bytes of source, {bytecode} of bytecode", module.source.len())?;
    }
    Ok(0)
}
