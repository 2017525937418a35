//! Figures of other programs for the same work. All were measured on a machine with two cores like the one described in
//! `docs/benchmarks.md`; they are not measured again here, because that requires Node.

use crate::table::Peer;

const US: f64 = 1e3;
const MS: f64 = 1e6;

/// Real pi 0.73.1 on Node 20, 72 example extensions, one process each: importing the loader takes 0.8 to 1.0 s, then the
/// extension is transpiled; the whole process takes 893 ms (median).
pub(crate) const START: Peer = Peer { name: "pi on Node 20, whole process", ns: 893.0 * MS };

/// First load of one extension in the runs of [`START`], without a transpile cache and with the loader already imported (median
/// of 72).
pub(crate) const FIRST_LOAD: Peer = Peer { name: "pi on Node 20, first load", ns: 89.0 * MS };

/// Load with jiti's transpile cache in the runs of [`START`]: the middle of 5 to 8 ms.
pub(crate) const CACHED_LOAD: Peer = Peer { name: "pi on Node 20, cached load", ns: 6.5 * MS };

/// A bare QuickJS context without `eval`, created and dropped, without any modules of PiJS (rquickjs 0.14, 10,000 times, median).
pub(crate) const CONTEXT: Peer = Peer { name: "bare QuickJS context", ns: 87.0 * US };

/// One call across the boundary of a Node extension host, without a gate or a ledger.
pub(crate) const HOSTCALL_NODE: Peer = Peer { name: "Node, no gate, no ledger", ns: 1.6 * US };

/// One call in another Rust host of pi extensions, dispatched and awaited.
pub(crate) const HOSTCALL_RUST: Peer = Peer { name: "a Rust peer", ns: 44.0 * US };

/// The published handler of pi-ttsr, verbatim, in Node 20 (V8): 20 line rules, 32 KB of ASCII in 4,096 chunks of 8 bytes, never
/// matching; median of 4 interleaved rounds. The text and the rules had the same shape as here, but not the same bytes.
pub(crate) const TTSR_NODE: Peer = Peer { name: "Node 20 (V8)", ns: 1069.0 * MS };

/// The handler of [`TTSR_NODE`] in plain QuickJS, called directly.
pub(crate) const TTSR_QUICKJS: Peer = Peer { name: "plain QuickJS", ns: 27_553.0 * MS };
