//! The byte format of artifacts: a header, then sections in a fixed order.
//!
//! ```text
//! magic      8 bytes   "PIJSXART"
//! format     u32       FORMAT_VERSION
//! engine     section   JSON of EngineBuild: enough to refuse before reading on
//! metadata   section   JSON of ArtifactMetadata
//! modules    u32       count, then for each:
//!   specifier, source, source map, bytecode: one section each; the last two may be absent
//! end        32 bytes  SHA-256 of everything before
//! ```
//!
//! A section is a tag byte, a `u64` length, the SHA-256 of tag, length and content, and the content; integers are little-endian.
//! An absent section is a single tag byte 0. The closing digest also covers the bytes between sections, so that no byte can be
//! changed unnoticed.

use crate::error::{ArtifactError, ErrorKind};
use bytes::Bytes;
use pijs_protocol::artifact::{ArtifactMetadata, EngineBuild};
use sha2::{Digest, Sha256};

/// First bytes of every artifact.
pub const MAGIC: [u8; 8] = *b"PIJSXART";

/// Version of the container format that this crate writes and reads.
pub const FORMAT_VERSION: u32 = 1;

const DIGEST_LEN: usize = 32;

/// A compiled package.
#[derive(Debug, Clone, PartialEq)]
pub struct Artifact {
    /// Metadata of the compiler; also written as `artifact.json`.
    pub metadata: ArtifactMetadata,
    /// Entry modules first, in manifest order, then shared chunks by specifier.
    pub modules: Vec<Module>,
}

/// Scheme of the specifier of a WebAssembly component. Its source is the component in base64, its bytecode the native code that
/// wasmtime compiled.
pub const COMPONENT_SCHEME: &str = "wasm:/";

impl Artifact {
    /// Returns the WebAssembly component if the package is one; the component is then its only module.
    pub fn component(&self) -> Option<&Module> {
        match self.modules.as_slice() {
            [module] => Some(module).filter(|module| module.specifier.starts_with(COMPONENT_SCHEME)),
            _ => None,
        }
    }

    /// Returns the artifact without bytecode: the part that is shown to users.
    #[must_use]
    pub fn into_texts(mut self) -> Self {
        for module in &mut self.modules {
            module.bytecode = None;
        }
        self
    }

    /// Returns the artifact without sources and maps: the part that an engine needs.
    #[must_use]
    pub fn into_code(mut self) -> Self {
        for module in &mut self.modules {
            module.source = String::new();
            module.source_map = None;
        }
        self
    }
}

/// One linked module of an artifact.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Module {
    /// Specifier, such as `ext:/index.js`.
    pub specifier: String,
    /// Bundled JavaScript, from which bytecode can be rebuilt.
    pub source: String,
    /// Source map version 3, from [`source`](Self::source) to the author's files.
    pub source_map: Option<String>,
    /// Engine bytecode of [`source`](Self::source), trusted only inside a [`Verified`](crate::Verified).
    pub bytecode: Option<Bytes>,
}

/// Tag byte of a section, so that one section cannot be parsed as another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum Tag {
    Absent = 0,
    Engine = 1,
    Metadata = 2,
    Specifier = 3,
    Source = 4,
    SourceMap = 5,
    Bytecode = 6,
}

impl Tag {
    fn name(self) -> &'static str {
        match self {
            Tag::Absent => "absent section",
            Tag::Engine => "engine section",
            Tag::Metadata => "metadata section",
            Tag::Specifier => "specifier section",
            Tag::Source => "source section",
            Tag::SourceMap => "source map section",
            Tag::Bytecode => "bytecode section",
        }
    }
}

/// Returns `sha256:HEX` of bytes, the form of digests in metadata.
pub fn digest(bytes: &[u8]) -> String {
    format!("sha256:{}", hex::encode(Sha256::digest(bytes)))
}

/// Encodes an artifact; equal artifacts give equal bytes.
///
/// The metadata's own `artifact` digest covers the whole file and cannot be inside it: `encode` leaves it empty, and the writer
/// of `artifact.json` fills it in.
pub fn encode(artifact: &Artifact) -> Vec<u8> {
    let mut out = Vec::new();
    out.extend_from_slice(&MAGIC);
    out.extend_from_slice(&FORMAT_VERSION.to_le_bytes());
    put(&mut out, Tag::Engine, &json(&artifact.metadata.engine));
    let metadata = ArtifactMetadata { artifact: String::new(), ..artifact.metadata.clone() };
    put(&mut out, Tag::Metadata, &json(&metadata));
    let count = u32::try_from(artifact.modules.len()).expect("an artifact has fewer than 2^32 modules");
    out.extend_from_slice(&count.to_le_bytes());
    for module in &artifact.modules {
        put(&mut out, Tag::Specifier, module.specifier.as_bytes());
        put(&mut out, Tag::Source, module.source.as_bytes());
        put_optional(&mut out, Tag::SourceMap, module.source_map.as_deref().map(str::as_bytes));
        put_optional(&mut out, Tag::Bytecode, module.bytecode.as_deref());
    }
    let end = Sha256::digest(&out);
    out.extend_from_slice(&end);
    out
}

/// Decodes a complete artifact; its bytecode is not trusted yet.
///
/// # Errors
///
/// In this order: wrong magic or format, then a section that is truncated, malformed or does not match its digest. The engine
/// build is not compared here; [`Verified::check`](crate::Verified::check) does.
pub fn decode(bytes: &[u8]) -> Result<Artifact, ArtifactError> {
    read(bytes, Digests::Compared, Bytes::copy_from_slice)
}

/// Decodes an artifact whose bytes have just been authenticated. Skips the digests, because the MAC covers all bytes and start-up
/// would pay twice.
pub(crate) fn decode_authenticated(bytes: &[u8]) -> Result<Artifact, ArtifactError> {
    read(bytes, Digests::VouchedFor, Bytes::copy_from_slice)
}

/// Decodes authenticated bytes without copying the bytecode.
pub(crate) fn decode_shared(bytes: &Bytes) -> Result<Artifact, ArtifactError> {
    read(bytes, Digests::VouchedFor, |code| bytes.slice_ref(code))
}

/// Decodes an artifact that is part of the program, without copying the bytecode.
pub(crate) fn decode_embedded(bytes: &'static [u8]) -> Result<Artifact, ArtifactError> {
    read(bytes, Digests::VouchedFor, Bytes::from_static)
}

fn read<'a>(bytes: &'a [u8], digests: Digests, code: impl Fn(&'a [u8]) -> Bytes) -> Result<Artifact, ArtifactError> {
    let mut reader = ArtifactReader { rest: bytes, digests };
    let engine = reader.header()?;
    let metadata = metadata(reader.section(Tag::Metadata)?, &engine, usize::MAX)?;
    let count = reader.u32("module count")?;
    // Grows section by section, so that a forged count does not reserve memory.
    let mut modules = Vec::new();
    for _ in 0..count {
        modules.push(Module {
            specifier: text(Tag::Specifier, reader.section(Tag::Specifier)?)?,
            source: text(Tag::Source, reader.section(Tag::Source)?)?,
            source_map: reader.optional(Tag::SourceMap)?.map(|map| text(Tag::SourceMap, map)).transpose()?,
            bytecode: reader.optional(Tag::Bytecode)?.map(&code),
        });
    }
    let content = &bytes[..bytes.len() - reader.rest.len()];
    let end = reader.take(DIGEST_LEN as u64, "closing digest")?;
    if !reader.rest.is_empty() {
        return Err(ArtifactError::new(ErrorKind::Trailing { bytes: reader.rest.len() }));
    }
    if digests == Digests::Compared && Sha256::digest(content).as_slice() != end {
        return Err(ArtifactError::new(ErrorKind::Digest { section: "the file".to_owned() }));
    }
    Ok(Artifact { metadata, modules })
}

/// Decodes only magic, format and engine build, which decide whether to read on.
///
/// # Errors
///
/// Fails as [`decode`] does, for these bytes.
pub fn read_header(bytes: &[u8]) -> Result<EngineBuild, ArtifactError> {
    ArtifactReader { rest: bytes, digests: Digests::Compared }.header()
}

/// Decodes only the header and the metadata of an artifact; the metadata may have at most `most` bytes.
///
/// # Errors
///
/// Fails as [`decode`] does, for these bytes; longer metadata is malformed.
pub fn read_metadata(bytes: &[u8], most: usize) -> Result<ArtifactMetadata, ArtifactError> {
    let mut reader = ArtifactReader { rest: bytes, digests: Digests::Compared };
    let engine = reader.header()?;
    metadata(reader.section(Tag::Metadata)?, &engine, most)
}

fn metadata(section: &[u8], engine: &EngineBuild, most: usize) -> Result<ArtifactMetadata, ArtifactError> {
    if section.len() > most {
        return Err(malformed(Tag::Metadata.name(), &format!("{} bytes exceed the limit of {most}", section.len())));
    }
    let metadata: ArtifactMetadata = parse(Tag::Metadata, section)?;
    if metadata.engine != *engine {
        return Err(malformed(Tag::Metadata.name(), "its engine does not match the header"));
    }
    Ok(metadata)
}

fn json<T: serde::Serialize>(value: &T) -> Vec<u8> {
    serde_json::to_vec(value).expect("metadata serializes to JSON")
}

fn put(out: &mut Vec<u8>, tag: Tag, content: &[u8]) {
    let length = (content.len() as u64).to_le_bytes();
    out.push(tag as u8);
    out.extend_from_slice(&length);
    out.extend_from_slice(&section_digest(tag, content));
    out.extend_from_slice(content);
}

fn put_optional(out: &mut Vec<u8>, tag: Tag, content: Option<&[u8]>) {
    match content {
        Some(content) => put(out, tag, content),
        None => out.push(Tag::Absent as u8),
    }
}

fn section_digest(tag: Tag, content: &[u8]) -> [u8; DIGEST_LEN] {
    let mut hasher = Sha256::new();
    hasher.update([tag as u8]);
    hasher.update((content.len() as u64).to_le_bytes());
    hasher.update(content);
    hasher.finalize().into()
}

fn parse<T: serde::de::DeserializeOwned>(tag: Tag, content: &[u8]) -> Result<T, ArtifactError> {
    serde_json::from_slice(content).map_err(|error| malformed(tag.name(), &error.to_string()))
}

fn text(tag: Tag, content: &[u8]) -> Result<String, ArtifactError> {
    std::str::from_utf8(content).map(str::to_owned).map_err(|error| malformed(tag.name(), &error.to_string()))
}

fn malformed(what: &'static str, detail: &str) -> ArtifactError {
    ArtifactError::new(ErrorKind::Malformed { what, detail: detail.to_owned() })
}

/// Reads an artifact's bytes from the front; every step either consumes existing bytes or fails.
struct ArtifactReader<'a> {
    rest: &'a [u8],
    digests: Digests,
}

/// Whether content is compared with its digests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Digests {
    Compared,
    VouchedFor,
}

impl<'a> ArtifactReader<'a> {
    fn header(&mut self) -> Result<EngineBuild, ArtifactError> {
        let magic = &self.rest[..self.rest.len().min(MAGIC.len())];
        if magic != MAGIC {
            return Err(ArtifactError::new(ErrorKind::Magic { found: magic.to_vec() }));
        }
        self.rest = &self.rest[MAGIC.len()..];
        let found = self.u32("format version")?;
        if found != FORMAT_VERSION {
            return Err(ArtifactError::new(ErrorKind::Format { expected: FORMAT_VERSION, found }));
        }
        parse(Tag::Engine, self.section(Tag::Engine)?)
    }

    fn take(&mut self, needed: u64, what: &'static str) -> Result<&'a [u8], ArtifactError> {
        let split = usize::try_from(needed).ok().and_then(|needed| self.rest.split_at_checked(needed));
        let Some((taken, rest)) = split else {
            return Err(ArtifactError::new(ErrorKind::Truncated { what, needed, left: self.rest.len() as u64 }));
        };
        self.rest = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N], ArtifactError> {
        Ok(self.take(N as u64, what)?.try_into().expect("take returns what was asked for"))
    }

    fn u32(&mut self, what: &'static str) -> Result<u32, ArtifactError> {
        self.array(what).map(u32::from_le_bytes)
    }

    fn section(&mut self, tag: Tag) -> Result<&'a [u8], ArtifactError> {
        self.optional(tag)?.ok_or_else(|| malformed(tag.name(), "the section is marked absent, but it is required"))
    }

    fn optional(&mut self, tag: Tag) -> Result<Option<&'a [u8]>, ArtifactError> {
        let [found] = self.array(tag.name())?;
        if found == Tag::Absent as u8 {
            return Ok(None);
        }
        if found != tag as u8 {
            return Err(malformed(tag.name(), &format!("tag {found} instead of {}", tag as u8)));
        }
        let length = u64::from_le_bytes(self.array(tag.name())?);
        let digest: [u8; DIGEST_LEN] = self.array(tag.name())?;
        let content = self.take(length, tag.name())?;
        if self.digests == Digests::Compared && section_digest(tag, content) != digest {
            return Err(ArtifactError::new(ErrorKind::Digest { section: format!("the {}", tag.name()) }));
        }
        Ok(Some(content))
    }
}

#[cfg(test)]
#[path = "container_tests.rs"]
mod tests;
