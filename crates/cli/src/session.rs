//! Builds a session from the command line.

use crate::args::{ExtensionFlag, RunArgs, similar_option};
use crate::models;
use crate::output::{clean, stderr};
use crate::terminal::at_once;
use pijs_host::FlagInfo;
use pijs_hostcall::LedgerSink;
use pijs_runtime::{
    AgentSession, Environment, Interface, LoadedSession, Result, SessionBuilder, SessionChoice, SessionConfig,
    UNKNOWN_OPTION, UserError,
};
use std::sync::Arc;

/// Builds the session of the command line. `ledger` is used instead of the ledger's file, if it is set.
pub(crate) async fn assemble(
    environment: &Environment,
    args: &RunArgs,
    flags: Vec<ExtensionFlag>,
    interface: Interface,
    ledger: Option<Arc<dyn LedgerSink>>,
) -> Result<AgentSession> {
    let builder = SessionBuilder::new(environment).config(args.config()?).interface(interface);
    let builder = match ledger {
        Some(sink) => builder.ledger(sink),
        None => builder,
    };
    loaded(builder, flags).await?.open().await
}

/// `pi --list-models`: loads extensions for the models that they register, and prints all models.
pub(crate) async fn list_models(environment: &Environment, args: RunArgs, flags: Vec<ExtensionFlag>) -> Result<()> {
    let loaded = load_registrations(environment, &args, flags).await?;
    let (models, wrong) = loaded.models();
    for (path, message) in wrong {
        stderr(&clean(&format!("warning: {path}: {message}")));
    }
    models::list(&models, args.list_models.as_deref().unwrap_or_default());
    loaded.close();
    Ok(())
}

/// Returns the flags that extensions register, for `pi --help`.
pub(crate) async fn registered_flags(
    environment: &Environment,
    args: RunArgs,
    flags: Vec<ExtensionFlag>,
) -> Result<Vec<FlagInfo>> {
    let loaded = load_registrations(environment, &args, flags).await?;
    let flags = loaded.host().flags();
    loaded.close_quietly();
    Ok(flags)
}

/// Loads extensions only for their registrations; the session is not stored.
async fn load_registrations(
    environment: &Environment,
    args: &RunArgs,
    flags: Vec<ExtensionFlag>,
) -> Result<LoadedSession> {
    let mut config: SessionConfig = args.config()?;
    config.store = Default::default();
    config.tape = None;
    config.store.choice = SessionChoice::InMemory;
    let interface = at_once(environment, args.is_text(), Box::new(pijs_agent::NoFrontEnd));
    loaded(SessionBuilder::new(environment).config(config).interface(interface), flags).await
}

async fn loaded(builder: SessionBuilder, flags: Vec<ExtensionFlag>) -> Result<LoadedSession> {
    let loaded = builder.load().await?;
    set_flags(&loaded, flags)?;
    Ok(loaded)
}

/// Passes the flags of the command line to the extensions.
fn set_flags(loaded: &LoadedSession, flags: Vec<ExtensionFlag>) -> Result<()> {
    let problems = loaded.give_flags(flags.into_iter().map(|flag| (flag.name, flag.value)));
    let Some(last) = problems.last() else { return Ok(()) };
    let message = clean(&problems.join("\n"));
    let Some(unknown) = last.strip_prefix(UNKNOWN_OPTION) else { return Err(UserError::failed(message)) };
    let registered: Vec<String> = loaded.host().flags().into_iter().map(|flag| flag.spec.name).collect();
    let similar = unknown
        .split_once("--")
        .and_then(|(_, name)| similar_option(name.split(',').next().unwrap_or_default(), &registered));
    let help = "pi --help lists the options; extensions may register more";
    Err(UserError::usage(message).help(match similar {
        Some(similar) => format!("did you mean {similar}? {help}"),
        None => help.to_owned(),
    }))
}
