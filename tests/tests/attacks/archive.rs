//! Builds archives from their entries, with false headers if the case specifies them.

use crate::case::{Archive, Content, Entry, Gzip};
use std::io::Write;

const BLOCK: usize = 512;

/// Returns the compressed bytes. `name` and `version` are those of the package's honest files.
pub(crate) fn build(archive: &Archive, name: &str, version: &str) -> Result<Vec<u8>, String> {
    let mut tar = Vec::new();
    if archive.honest {
        push(&mut tar, &file("package/package.json", &honest_manifest(name, version)), 0)?;
        push(&mut tar, &file("package/index.ts", HELLO), 0)?;
    }
    for entry in &archive.entries {
        for n in 0..entry.times.unwrap_or(1) {
            push(&mut tar, entry, n)?;
        }
    }
    if !archive.no_end {
        tar.resize(tar.len() + 2 * BLOCK, 0);
    }
    Ok(compress(&tar, archive.gzip))
}

/// Source of an extension that only registers a command.
pub(crate) const HELLO: &str = "export default (pi: any) => { pi.registerCommand('hello', { description: 'says hello', handler: async () => { console.log('@report', JSON.stringify({ hello: true })); } }); };\n";

/// Returns `package.json` of a package with one extension.
pub(crate) fn honest_manifest(name: &str, version: &str) -> String {
    serde_json::json!({ "name": name, "version": version, "pi": { "extensions": ["./index.ts"] } }).to_string()
}

fn file(path: &str, text: &str) -> Entry {
    Entry { path: path.to_owned(), text: text.to_owned(), ..Entry::default() }
}

/// Returns the bytes described by a [`Content`].
pub(crate) fn content(content: &Content) -> Result<Vec<u8>, String> {
    let piece = match &content.hex {
        Some(hex) => hex::decode(hex).map_err(|error| format!("{hex}: {error}"))?,
        None => content.repeat.clone().into_bytes(),
    };
    let mut bytes = content.before.clone().into_bytes();
    bytes.reserve(piece.len() * content.times);
    for _ in 0..content.times {
        bytes.extend_from_slice(&piece);
    }
    bytes.extend_from_slice(content.after.as_bytes());
    for _ in 0..content.gzip {
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        packed.write_all(&bytes).map_err(|error| error.to_string())?;
        bytes = packed.finish().map_err(|error| error.to_string())?;
    }
    Ok(bytes)
}

fn push(tar: &mut Vec<u8>, entry: &Entry, n: usize) -> Result<(), String> {
    if entry.kind.as_deref() == Some("end") {
        tar.resize(tar.len() + BLOCK, 0);
        return Ok(());
    }
    let kind = kind(entry.kind.as_deref().unwrap_or("file"))?;
    let mut data = match &entry.content {
        Some(described) => content(described)?,
        None => entry.text.clone().into_bytes(),
    };
    for (key, value) in &entry.pax {
        data.extend_from_slice(pax_record(key, value).as_bytes());
    }
    let name = match &entry.path_hex {
        Some(hex) => hex::decode(hex).map_err(|error| format!("{hex}: {error}"))?,
        None => entry.path.replace("@@n@@", &n.to_string()).into_bytes(),
    };
    if name.len() > 100 {
        return Err(format!("a name of {} bytes needs a pax or long-name entry before it", name.len()));
    }
    let mut header = tar::Header::new_ustar();
    let bytes = header.as_mut_bytes();
    bytes[..name.len()].copy_from_slice(&name);
    let link = entry.link.as_bytes();
    bytes[157..157 + link.len().min(100)].copy_from_slice(&link[..link.len().min(100)]);
    bytes[156] = kind;
    header.set_size(entry.size.unwrap_or(data.len() as u64));
    let mode = entry.mode.as_deref().unwrap_or("644");
    header.set_mode(u32::from_str_radix(mode, 8).map_err(|error| format!("mode {mode}: {error}"))?);
    header.set_cksum();
    tar.extend_from_slice(header.as_bytes());
    tar.extend_from_slice(&data);
    tar.resize(tar.len().next_multiple_of(BLOCK), 0);
    Ok(())
}

fn kind(name: &str) -> Result<u8, String> {
    Ok(match name {
        "file" => b'0',
        "hardlink" => b'1',
        "symlink" => b'2',
        "char" => b'3',
        "block" => b'4',
        "folder" => b'5',
        "fifo" => b'6',
        "contiguous" => b'7',
        "pax" => b'x',
        "global" => b'g',
        "long-name" => b'L',
        "long-link" => b'K',
        "sparse" => b'S',
        other => match other.as_bytes() {
            [one] => *one,
            _ => return Err(format!("no kind of entry is called {other}")),
        },
    })
}

fn pax_record(key: &str, value: &str) -> String {
    let rest = key.len() + value.len() + 3;
    let digits = |n: usize| n.to_string().len();
    let length = (1..9).map(|d| rest + d).find(|total| digits(*total) + rest == *total).unwrap_or(rest);
    format!("{length} {key}={value}\n")
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(bytes).and_then(|()| encoder.finish()).expect("into memory")
}

fn compress(tar: &[u8], how: Gzip) -> Vec<u8> {
    let mut bytes = gzip(tar);
    match how {
        Gzip::Honest => {}
        Gzip::TwoMembers => bytes.extend(gzip(b"more")),
        Gzip::Trailing => bytes.extend(b"trailing"),
        Gzip::WrongSum => {
            let at = bytes.len() - 8;
            bytes[at] ^= 1;
        }
        Gzip::Truncated => bytes.truncate(bytes.len() - 9),
        Gzip::LongName => {
            // FNAME: a file name of one megabyte instead of none.
            let name = vec![b'n'; 1 << 20];
            bytes[3] |= 8;
            bytes.splice(10..10, name.into_iter().chain([0]));
        }
        Gzip::Absent => bytes = tar.to_vec(),
    }
    bytes
}
