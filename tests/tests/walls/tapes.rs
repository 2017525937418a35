//! Scenarios about forged tapes.

use super::built;
use pijs_artifact::Verified;
use pijs_protocol::artifact::EngineBuild;
use pijs_protocol::wire::{Limits, RealmOptions};
use pijs_protocol::{Now, Yield};
use pijs_realm::{Realm, SyncHost};
use pijs_tape::{
    Blob, Event, ModuleError, ModuleSet, Opening, RealmNumber, Replay, ReplayError, ReplayOptions, ReplayServices,
    TapeHeader, TapeReader, TapeWriter,
};
use serde_json::json;
use sha2::{Digest as _, Sha256};
use std::sync::Arc;

/// A replay that opens no realm.
struct NoRealms;

impl ReplayServices for NoRealms {
    fn engine(&self) -> EngineBuild {
        pijs_engine::engine_build()
    }

    fn host_modules(&self) -> String {
        "sha256:00".to_owned()
    }

    fn modules(&self, _: &ModuleSet) -> Option<Arc<Verified>> {
        None
    }

    fn open(
        &self,
        _: &RealmOptions,
        _: Vec<Arc<Verified>>,
        _: Now,
        _: &mut dyn SyncHost,
    ) -> Result<(Box<dyn Realm>, Yield), String> {
        Err("no realm is opened".to_owned())
    }
}

/// B25: the caps of a build apply to sources on a tape.
pub(crate) fn sources_on_a_tape_have_the_caps_of_a_build() -> bool {
    let good = built("export default () => {};");
    let deep = format!("export default {}{};", "[".repeat(1_200), "]".repeat(1_200));
    let sources = json!({"metadata": good.metadata(), "modules": [{"specifier": "ext:/0/index.js", "source": deep}]});
    let sources = sources.to_string();
    let digest = format!("sha256:{}", hex::encode(Sha256::digest(&sources)));
    let options = RealmOptions {
        extension: "npm:forged".into(),
        limits: Limits::default(),
        seed: 7,
        clock_step_us: 1,
        time_zone: "UTC".to_owned(),
        facts: serde_json::Map::new(),
    };
    let set = ModuleSet {
        name: "forged".to_owned(),
        version: "1.0.0".to_owned(),
        digest: "sha256:00".to_owned(),
        source: Some(digest.clone()),
    };
    let opening = Opening { options, now: Now::default(), modules: vec![set] };
    let header = TapeHeader::new("0.1.0", NoRealms.engine(), NoRealms.host_modules());
    let mut tape = TapeWriter::new(Vec::new(), &header).expect("writing to memory cannot fail");
    let base64 = base64::Engine::encode(&base64::prelude::BASE64_STANDARD, &sources);
    tape.append_blob(&Blob { digest, base64 }).expect("writing to memory cannot fail");
    for event in [Event::Open(Box::new(opening)), Event::Yield(Yield::default())] {
        tape.append(RealmNumber(1), event.as_ref().expect("a valid wire event"))
            .expect("writing to memory cannot fail");
    }
    let tape = tape.finish().expect("writing to memory cannot fail");
    let reader = TapeReader::new(tape.as_slice()).expect("it has a header");
    let replay = Replay::new(reader, &NoRealms, ReplayOptions::default()).expect("the tape is from this build");
    matches!(replay.run(), Err(ReplayError::Modules(ModuleError::Sources(error))) if error.contains("brackets"))
}
