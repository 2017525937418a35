//! Embeds PiJS: a session with an extension, a recorded model and this program as its front end.
//!
//! ```sh
//! cargo run -p pijs-runtime --example session                       # pi-ttsr stops a recorded reply
//! cargo run -p pijs-runtime --example session -- 'fix it' anthropic/claude-sonnet-4-5
//! ```

#![expect(clippy::print_stdout, reason = "an example talks to whoever runs it")]

use pijs_agent::{AgentEvent, FrontEnd, InputSource};
use pijs_runtime::{Environment, ExtensionConfig, Interface, ModelConfig, SessionBuilder, SessionConfig};
use std::io::{self, Write as _};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// Prints the reply as it streams, and a line when an extension stops it.
struct Shown;

impl FrontEnd for Shown {
    fn event(&mut self, event: &AgentEvent<'_>) -> io::Result<()> {
        let payload = event.payload();
        match event {
            AgentEvent::MessageUpdate { .. } => {
                print!("{}", payload["assistantMessageEvent"]["delta"].as_str().unwrap_or_default());
                io::stdout().flush()
            }
            AgentEvent::StreamVerdict(_) => {
                println!("\n--- {} stopped the reply; the model tries again ---", payload["extension"]);
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Runs as a worker if this process was started as one: sealed realms run in copies of this program.
    pijs_realm::worker::enter();
    pijs_extc::worker::enter();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    tokio::task::LocalSet::new().block_on(&runtime, converse())
}

async fn converse() -> Result<(), Box<dyn std::error::Error>> {
    let mut words = std::env::args().skip(1);
    let prompt = words.next().unwrap_or_else(|| "write a client for the orders service".to_owned());
    let model = words.next().unwrap_or_else(|| format!("script:{ROOT}/crates/cli/demo/reply.jsonl"));

    // Creates a temporary project with a rule for the extension.
    let project = tempfile::tempdir()?;
    std::fs::create_dir_all(project.path().join(".pi/rules"))?;
    std::fs::copy(format!("{ROOT}/crates/cli/demo/no-old-sdk.md"), project.path().join(".pi/rules/no-old-sdk.md"))?;
    std::env::set_current_dir(project.path())?;

    let named = vec![format!("{ROOT}/fixtures/packages/pi-ttsr")];
    let config = SessionConfig {
        extensions: ExtensionConfig { named, only_named: true, ..ExtensionConfig::default() },
        model: ModelConfig { name: Some(model), ..ModelConfig::default() },
        ..SessionConfig::default()
    };
    let session = SessionBuilder::new(&Environment::capture()?)
        .config(config)
        .interface(Interface { front_end: Box::new(Shown), ..Interface::default() })
        .build()
        .await?;
    let talk = async {
        session.start().await?;
        let outcome = session.agent.submit(prompt.as_str().into(), InputSource::Interactive).await?;
        println!("\n=> {:?}", outcome.ending);
        session.agent.shutdown("quit").await;
        Ok(())
    };
    let result = session.host.run(session.agent.attend(talk)).await;
    session.finish();
    result
}
