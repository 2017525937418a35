use super::*;
use crate::config::{Parsed, merge};
use crate::pins::Pins;
use crate::server::MAX_FAILURES;
use pijs_environment::simulated::VirtualClock;
use pijs_hostcall::ledger::{LedgerOptions, MemorySink};
use pijs_hostcall::places::Places;
use pijs_hostcall::{Gate, Ledger, Mode, Policy};
use pijs_protocol::Now;

/// A clock that the test advances.
struct Clock(VirtualClock);

impl Timer for Clock {
    fn now(&self) -> Now {
        self.0.now()
    }

    fn sleep(&self, _wait: Wait, _duration: Duration) -> pijs_hostcall::BoxFuture<'static, ()> {
        Box::pin(std::future::pending())
    }
}

/// A session that records notices.
#[derive(Default)]
struct Port(Mutex<Vec<String>>);

impl SessionPort for Port {
    fn roots(&self) -> Vec<PathBuf> {
        Vec::new()
    }

    fn log(&self, _caller: &Caller, _level: &str, _logger: Option<&str>, _text: &str) {}

    fn notice(&self, line: String) {
        self.0.lock().expect("nobody panics").push(line);
    }

    fn pins(&self) -> Pins {
        Pins::default()
    }

    fn change_pins(&self, change: &mut dyn FnMut(&mut Pins)) {
        change(&mut Pins::default());
    }
}

#[tokio::test]
async fn a_server_that_keeps_failing_is_quarantined_until_a_reconnect() {
    let clock = Arc::new(Clock(VirtualClock::starting_at(1_700_000_000_000)));
    let port = Arc::new(Port::default());
    let options = ServersOptions {
        timer: Arc::clone(&clock) as _,
        session: Arc::clone(&port) as _,
        run: None,
        project: PathBuf::from("/projects/app"),
    };
    let servers = Servers::new(options);
    let file = Parsed::parse(r#"{"mcpServers": {"s": {"command": "c"}}}"#, "mcp.json");
    let config = merge(file, Parsed::default(), &mut Vec::new()).remove(0);
    servers.set(vec![(config, Arc::new(Profile::new("mcp:s")))]);
    assert!(servers.serves("s/echo", &ExtensionId::new("mcp:s")));
    assert!(!servers.serves("s/echo", &ExtensionId::new("npm:x")), "whatever it was granted");
    // There is no connector for programs, so every start fails.
    let policy = Policy { mode: Mode::Permissive, ..Policy::default() };
    let gate = Gate::builder(policy, Places::new("/projects/app", "/home/me", "/home/me/.pi/agent", "/tmp")).build();
    let ledger = Ledger::new(LedgerOptions::default(), MemorySink::new());
    servers.open(Arc::new(Dispatcher::builder(gate, ledger, Arc::clone(&clock) as _).build()));

    let call =
        async || servers.call("s/echo", None, Box::new(|_, _, _| {})).await.expect_err("it cannot start").message;
    assert!(!call().await.contains("tried again"), "the first loss is met at once");
    assert!(!call().await.contains("tried again"));
    assert!(call().await.contains("it is tried again after 1 s"), "then it backs off");
    for _ in 2..MAX_FAILURES {
        clock.0.advance_us(120_000_000);
        assert!(!call().await.contains("quarantined"));
    }
    clock.0.advance_us(120_000_000);
    assert!(call().await.contains("the server s is quarantined for this session"));
    assert_eq!(servers.statuses()[0].phase, Phase::Quarantined);
    let notices = port.0.lock().expect("nobody panics").clone();
    assert!(notices.last().is_some_and(|line| line.contains("it failed 5 times and is not used again")), "{notices:?}");
    assert!(servers.reconnect("s").await.is_err_and(|problem| !problem.contains("quarantined")));
    assert_eq!(servers.statuses()[0].phase, Phase::Down);
}
