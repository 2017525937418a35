//! Inspector: displays a tape as one HTML page.
//!
//! [`Report`] reads a tape, and the ledger of the same session if there is one, into the data of the page: a lane for each realm
//! and one for the agent, spans for turns, calls and timers, the streamed text with the attempts that were discarded, and the
//! verdicts. [`page`] puts that data, the page's style and its script (`page/`) into one document that loads nothing: its content
//! security policy allows exactly that script and that style, by digest, and no request.
//!
//! Text of a tape is untrusted. In the document it is data, never markup: the script creates text nodes only.

#![warn(missing_docs)]

mod agent;
mod document;
mod ledger;
mod report;
mod stream;

pub use document::page;
pub use ledger::{Decision, decisions};
pub use report::{Lane, Report, Row};
pub use stream::{Chunk, Verdict};
