//! Logs of this process: `PI_LOG` prints spans and events on stderr, `--log-json FILE` writes them as `pi.ext.log.v1` lines.
//!
//! Both use directives of [`EnvFilter`] (`pijs=debug`, `pijs_host=trace,warn`) and the redactor of the ledger. Without either, no
//! subscriber is installed, and a span costs a branch.

mod lines;

use crate::output;
use lines::Lines;
use pijs_redact::Redactor;
use pijs_runtime::{Environment, Result, UserError, log_redactor};
use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;
use tracing_subscriber::filter::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::fmt::format::FmtSpan;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{Layer as _, fmt};

/// Environment variable with the directives.
const VARIABLE: &str = "PI_LOG";
/// Directives of `--log-json` if the variable is not set.
const USUAL: &str = "pijs=debug";
/// Directive that is always added. Notices report errors of an MCP server; the log of the client library would quote them
/// unsanitised.
const NEVER: &str = "rmcp=off";

/// Installs the logs that the environment and the arguments request, if any. `command` is the name of the running command, for
/// lines outside of a session.
pub(crate) fn install(environment: &Environment, json: Option<&Path>, command: &str) -> Result<()> {
    let directives = environment.variable(VARIABLE).filter(|directives| !directives.trim().is_empty());
    if directives.is_none() && json.is_none() {
        return Ok(());
    }
    let redactor = log_redactor(environment);
    let people = directives.map(filter).transpose()?.map(|filter| {
        fmt::layer()
            .with_writer(Redacted(redactor.clone()))
            .with_ansi(false)
            .with_span_events(FmtSpan::NEW | FmtSpan::CLOSE)
            .with_filter(filter)
    });
    let lines = match json {
        Some(path) => {
            let filter = filter(directives.unwrap_or(USUAL))?;
            let path = environment.dirs.cwd.join(path);
            let mut options = OpenOptions::new();
            options.append(true).create(true);
            // Only the user may read the log, which describes the actions of extensions.
            #[cfg(unix)]
            std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
            let file = options.open(&path).map_err(|error| {
                UserError::failed(format!("--log-json: {} cannot be written: {error}", path.display()))
                    .help("name a file in a folder that exists and can be written to")
            })?;
            let notices = environment.notices.clone();
            Some(Lines::new(Box::new(file), redactor, command, move |text| notices.warn(text)).with_filter(filter))
        }
        None => None,
    };
    // An embedder that runs the command may have installed another subscriber.
    let _ = tracing_subscriber::registry().with(people).with(lines).try_init();
    Ok(())
}

/// Parses directives.
fn filter(directives: &str) -> Result<EnvFilter> {
    let filter = EnvFilter::builder().parse(directives).map_err(|error| {
        let failure = UserError::usage(format!("{VARIABLE}: {directives:?} cannot be read: {error}"));
        failure.help("write a level or TARGET=LEVEL, with commas between them: pijs=debug, pijs_host=trace,warn")
    })?;
    Ok(match directives.contains("rmcp") {
        true => filter,
        false => filter.add_directive(NEVER.parse().expect("a constant directive")),
    })
}

/// Writes to stderr, with the secrets redacted that the ledger redacts.
struct Redacted(Redactor);

impl<'a> MakeWriter<'a> for Redacted {
    type Writer = RedactedWriter<'a>;

    fn make_writer(&'a self) -> Self::Writer {
        RedactedWriter(&self.0)
    }
}

struct RedactedWriter<'a>(&'a Redactor);

impl Write for RedactedWriter<'_> {
    /// Writes one formatted line; the layer formats a whole line before it writes.
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let line = self.0.text(&String::from_utf8_lossy(bytes));
        output::stderr(line.trim_end_matches('\n'));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
