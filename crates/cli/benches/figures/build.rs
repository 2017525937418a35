//! Compiles a typical extension: pi-ttsr, four TypeScript modules.

use crate::peers;
use crate::table::{Figure, Samples};
use crate::world::fixture;
use pijs_artifact::InstallKey;
use pijs_extc::{BuildOptions, Cache, Input, build};

const COLD: usize = 20;
const CACHED: usize = 200;

pub(crate) fn figures() -> Vec<Figure> {
    let input = Input::at(fixture("packages/pi-ttsr"));
    let cold = BuildOptions::default();
    let cold_samples = Samples::timed(COLD, || drop(build(&input, &cold).expect("it compiles")));

    let directory = tempfile::tempdir().expect("a temporary directory");
    let cache = Some(Cache::open(directory.path(), InstallKey::from_bytes([7; 32])));
    let cached = BuildOptions { cache, ..BuildOptions::default() };
    let cached_samples = Samples::timed(CACHED, || drop(build(&input, &cached).expect("it compiles")));
    let (cold_target, cached_target) = (Some((150e6, None)), Some((3e6, None)));
    vec![
        Figure {
            work: "extc build of pi-ttsr, no cache".into(),
            samples: cold_samples,
            peer: Some(peers::FIRST_LOAD),
            target: cold_target,
        },
        Figure {
            work: "extc build of pi-ttsr, cached".into(),
            samples: cached_samples,
            peer: Some(peers::CACHED_LOAD),
            target: cached_target,
        },
    ]
}
