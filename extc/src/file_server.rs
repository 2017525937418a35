//! The parent's side of the [file access](crate::file_proxy) of a sandboxed build.

use crate::file_proxy::{ChildMessage, ParentReply, receive, send};
use crate::phase::PhaseSpans;
use crate::tree::SourceTree;
use serde::de::DeserializeOwned;
use std::io::{self, Read, Write};

/// Maximum number of bytes of requests, counting [`COST`] for each: recording them takes about as much memory. A build whose
/// artifact can be cached sends a third of it.
const MAX_REQUESTED: u64 = 128 << 20;
/// Memory that a request takes in addition to its text, in bytes.
const COST: u64 = 128;
/// Maximum size of an answer in bytes: an artifact with its sources, maps and bytecode.
const MAX_ANSWER: u64 = 512 << 20;

/// Serves a child from `tree` until it is done. Returns its final message and the bytes that follow.
pub(crate) fn serve<T: DeserializeOwned>(
    tree: &SourceTree,
    from: &mut impl Read,
    to: &mut impl Write,
) -> io::Result<(T, Vec<u8>)> {
    let mut requested = 0;
    let mut phases = PhaseSpans::default();
    loop {
        let (message, length, bytes) = receive::<ChildMessage<T>>(from, MAX_ANSWER)?;
        requested += COST + length;
        let (reply, bytes) = match message {
            ChildMessage::Done(last) => return Ok((last, bytes)),
            _ if requested > MAX_REQUESTED => {
                return Err(io::Error::other("the sealed process sends too many requests"));
            }
            ChildMessage::Phase(notice) => {
                phases.take(notice);
                continue;
            }
            ChildMessage::Probe(path) => (ParentReply::Kind(tree.probe(&path)), Vec::new()),
            ChildMessage::Admit(path, specifier) => match tree.admit(&path, &specifier) {
                Ok(()) => (ParentReply::Admitted, Vec::new()),
                Err(diagnostic) => (ParentReply::Refused(diagnostic), Vec::new()),
            },
            ChildMessage::List(path) => (ParentReply::Bytes, serde_json::to_vec(&tree.list(&path))?),
            // Only manifests: the parent would not record any other file as an input.
            ChildMessage::Manifest(path) if !path.ends_with("package.json") => (ParentReply::Nothing, Vec::new()),
            ChildMessage::Manifest(path) => match tree.manifest(&path) {
                Some(bytes) => (ParentReply::Bytes, bytes),
                None => (ParentReply::Nothing, Vec::new()),
            },
            ChildMessage::Read(path) => match tree.read(&path) {
                Ok(bytes) => (ParentReply::Bytes, bytes),
                Err(diagnostic) => (ParentReply::Refused(diagnostic), Vec::new()),
            },
        };
        send(to, &reply, &bytes)?;
    }
}
