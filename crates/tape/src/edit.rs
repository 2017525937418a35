//! Reduces a long tape to a small one that can be shared.
//!
//! Realms do not depend on each other or on later records, so [`trim`] can leave out whole realms and the end of a recording; the
//! remaining records replay as before. [`redact`] replaces secrets by placeholders of equal length. To leave out inputs in the
//! middle, the other inputs have to be run again: [`rerecord`](crate::rerecord) does that.

use crate::error::TapeError;
use crate::modules::{self, ModuleError};
use crate::reader::TapeReader;
use crate::record::{Blob, Event, Opening, RealmNumber, Record};
use crate::replay_services::ReplayError;
use crate::writer::TapeWriter;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use pijs_redact::Substitutes;
use std::collections::BTreeMap;
use std::io::{Read, Write};

/// Selects the part of a tape to keep.
#[derive(Debug, Clone, Default)]
pub struct Kept {
    /// Extensions whose realms are kept, by id or by package name; empty for all.
    pub extensions: Vec<String>,
    /// Number of the last tick that is kept; `None` for all.
    pub until: Option<u64>,
}

impl Kept {
    fn has(&self, opening: &Opening) -> bool {
        let is_named = |name: &String| opening.extension().as_str() == name || opening.package() == name;
        self.extensions.is_empty() || self.extensions.iter().any(is_named)
    }
}

/// Writes a part of a tape to `out`. Returns `out` and the number of ticks that were kept.
///
/// # Errors
///
/// Fails if the tape cannot be read or `out` cannot be written.
pub fn trim<R: Read, W: Write>(mut tape: TapeReader<R>, kept: &Kept, out: W) -> Result<(W, u64), TapeError> {
    let mut out = TapeWriter::new(out, tape.header())?;
    // Realms that are kept, with their number on the new tape and the events of the incomplete turn.
    let mut realms: BTreeMap<RealmNumber, (RealmNumber, Vec<Event>)> = BTreeMap::new();
    let (mut tick, mut ticks) = (0, 0);
    while let Some(record) = next(&mut tape)? {
        let Record { realm, event, .. } = record;
        tick += u64::from(event.begins_tick());
        if kept.until.is_some_and(|until| tick > until) {
            break;
        }
        if let Event::Open(opening) = &event
            && kept.has(opening)
        {
            let number = RealmNumber(u32::try_from(realms.len()).unwrap_or(u32::MAX).saturating_add(1));
            realms.insert(realm, (number, Vec::new()));
        }
        let (Some((number, turn)), Some(what)) = (realms.get_mut(&realm), event.as_ref()) else { continue };
        let ends_turn = what.ends_turn();
        turn.push(event);
        if !ends_turn {
            continue;
        }
        for event in turn.drain(..) {
            ticks += u64::from(event.begins_tick());
            if let Event::Open(opening) = &event {
                sources(&tape, opening, &mut out)?;
            }
            if let Some(event) = event.as_ref() {
                out.append(*number, event)?;
            }
        }
    }
    Ok((out.finish()?, ticks))
}

fn next<R: Read>(tape: &mut TapeReader<R>) -> Result<Option<Record>, TapeError> {
    match tape.next() {
        Some(Err(error)) if error.is_cut() => Ok(None),
        record => record.transpose(),
    }
}

/// Copies the sources of a realm's modules.
fn sources<R: Read, W: Write>(
    tape: &TapeReader<R>,
    opening: &Opening,
    out: &mut TapeWriter<W>,
) -> Result<(), TapeError> {
    for digest in opening.modules.iter().filter_map(|set| set.source.as_ref()) {
        if let Some(bytes) = tape.blob(digest) {
            out.append_blob(&Blob { digest: digest.clone(), base64: BASE64.encode(bytes) })?;
        }
    }
    Ok(())
}

/// Copies a tape to `out` with placeholders in place of secrets.
///
/// # Errors
///
/// Fails if the tape cannot be read, if `out` cannot be written, or if the sources of an extension do not compile without the
/// secret.
pub fn redact<R: Read, W: Write>(mut tape: TapeReader<R>, substitutes: Substitutes, out: W) -> Result<W, ReplayError> {
    let header = tape.header().clone();
    let mut written: BTreeMap<String, (String, String)> = BTreeMap::new();
    let mut out = TapeWriter::redacting(out, &header, substitutes)?;
    while let Some(record) = next(&mut tape)? {
        let Record { realm, mut event, .. } = record;
        if let Event::Open(opening) = &mut event {
            for set in &mut opening.modules {
                let Some(blob) = set.source.clone() else { continue };
                if !written.contains_key(blob.as_str()) {
                    let absent = || ModuleError::Sources("they are missing".to_owned());
                    let recorded = tape.blob(&blob).ok_or_else(absent)?.to_vec();
                    let mut changed = set.clone();
                    let sources = modules::without_secrets(recorded, &mut changed, |text| out.without_secrets(text))?;
                    let name = modules::blob_digest(&sources);
                    out.append_blob(&Blob { digest: name.clone(), base64: BASE64.encode(sources) })?;
                    written.insert(blob.clone(), (name, changed.digest));
                }
                if let Some((name, digest)) = written.get(&blob) {
                    (set.source, set.digest) = (Some(name.clone()), digest.clone());
                }
            }
        }
        if let Event::Agent(record) = event {
            out.append_agent(*record)?;
        } else if let Some(event) = event.as_ref() {
            out.append(realm, event)?;
        }
    }
    Ok(out.finish()?)
}
