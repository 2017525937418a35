//! The terminal interface of `pi`: an interactive session.
//!
//! ```text
//! keys ──> tty ──> screen's thread ──> View::typed ──┬─> editor, dialogs, permission prompts
//!                     │    ^                         └─> UiTask ──> the session's thread: prompts, shortcuts,
//!                  draw│    │change                                components of extensions
//!                     v    │
//!                 terminal └── port (ctx.ui, gate), events (agent, host)
//! ```
//!
//! | module | contents |
//! |---|---|
//! | [`tty`], [`input`] | the terminal and its input |
//! | [`screen`] | the thread that draws and reads keys |
//! | [`view`], [`layers`], [`floating`], [`picker`], [`transcript`], [`text_field`] | the state of the screen |
//! | [`key_dispatch`], [`editing`], [`pastes`], [`completion`] | key handling |
//! | [`draw`], [`picture`], [`tools`], [`images`] | rendering |
//! | [`port`], [`events`] | changes by extensions, the agent and the host |
//! | [`components`] | rendering by extensions |
//! | [`commands`], [`selections`], [`suggestions`] | input, lists and completion |
//! | [`surroundings`], [`themes`] | branch, sessions and themes on disk |
//!
//! Invariants: text of an extension, a model or a file is sanitised before it becomes a line; only this crate draws the last row
//! and the frame of a permission prompt; Ctrl-C twice ends the session, whichever component has the focus.

#![warn(missing_docs)]

mod accounts;
pub mod answer_choices;
mod clip;
mod commands;
mod completion;
mod completion_request;
mod components;
mod dialog;
mod draw;
mod editing;
mod events;
mod external_editor;
mod floating;
mod footer;
mod images;
mod input;
mod inserted_text;
mod key_dispatch;
mod layers;
mod pastes;
mod permission_prompt;
mod picker;
mod picture;
mod port;
mod rule;
mod screen;
mod secret_input;
mod selections;
mod suggestions;
mod surroundings;
mod task;
mod text_field;
mod themes;
mod tools;
mod transcript;
mod tty;
mod view;

use commands::UserCommands;
use components::Components;
use events::{EntryObserver, ReportsOnScreen, ScreenFrontEnd};
use footer::SessionUsage;
use layers::Layer;
use picker::{ListKind, Picker};
use pijs_agent::{AgentError, StateSink};
use pijs_llm::message::Content;
use pijs_runtime::Environment;
use pijs_runtime::open_session::Sessions;
use pijs_runtime::settings;
use pijs_runtime::shutdown_signals::{SHUTDOWN_GRACE, ShutdownSignals};
use pijs_runtime::{AgentSession, Interface, Notices, WIND_DOWN};
use pijs_runtime::{Result, UserError};
use pijs_session_store::Session;
use port::TuiPort;
use screen::Screen;
use serde_json::{Value, json};
use std::cell::OnceCell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use task::UiTask;
use tokio::sync::mpsc;
use transcript::Style;
use tty::Tty;

/// Lines at the top, until an extension replaces them.
const WELCOME: [&str; 2] = [
    concat!("\u{1b}[1mpi\u{1b}[0m\u{1b}[2m on PiJS ", env!("CARGO_PKG_VERSION"), "\u{1b}[0m"),
    "\u{1b}[2m/ commands · ! shell · @ files · escape interrupts · ctrl+o folds · /help · /hotkeys\u{1b}[0m",
];

/// Message when no model is available at the start.
const NO_MODEL: &str = "no model is available: no provider has a key. Type /login to store one, or set the variable of a provider (ANTHROPIC_API_KEY, OPENAI_API_KEY, ...) and start again. Commands, !shell and extensions work without a model.";

/// Options of the terminal interface.
#[derive(Debug, Default)]
pub struct TuiOptions {
    /// Prompts to run first, one after another.
    pub prompts: Vec<Content>,
    /// Name of the theme, instead of the one in the settings.
    pub theme: Option<String>,
    /// Whether loaded extensions and resources are listed at the start.
    pub is_verbose: bool,
    /// Whether the user first chooses a session to resume.
    pub resumes: bool,
    /// Folder of sessions, instead of the default one.
    pub session_dir: Option<String>,
}

/// Runs an interactive session until the user leaves.
///
/// `divert` receives a sink for notices while the screen is active, and `None` afterwards. `assemble` builds the session for the
/// interface and continues the session file that the user chose.
///
/// # Errors
///
/// Fails without a terminal, or if the session cannot be built or continued.
pub async fn serve<F>(
    environment: &Environment,
    options: TuiOptions,
    divert: impl Fn(Option<Notices>),
    assemble: impl FnOnce(Interface, Option<String>) -> F,
) -> Result<()>
where
    F: Future<Output = Result<AgentSession>>,
{
    let no_terminal = |error| UserError::failed(format!("the terminal cannot be used: {error}"));
    let Some(tty) = Tty::open().map_err(no_terminal)? else {
        return Err(UserError::usage("input and output are not a terminal").help(
            "run one prompt with: pi -p 'PROMPT' --model PROVIDER/ID\n        or drive a session with: pi --mode rpc",
        ));
    };
    let before = std::panic::take_hook();
    let given_back = Arc::clone(&tty);
    std::panic::set_hook(Box::new(move |panic| {
        given_back.restore();
        before(panic);
    }));
    let (screen, work) = Screen::open(tty);
    let (told, worked) = (screen.clone(), screen.clone());
    let notices = Notices::new(move |line| told.change(|view| view.say(Style::Info, line)));
    let progress = move |line: Option<&str>| worked.change(|view| view.run.progress = line.map(pijs_terminal::plain));
    divert(Some(notices.with_progress(progress)));
    let result = run(environment, options, &screen, work, assemble).await;
    divert(None);
    screen.close();
    result
}

async fn run<F>(
    environment: &Environment,
    options: TuiOptions,
    screen: &Screen,
    mut work: mpsc::UnboundedReceiver<UiTask>,
    assemble: impl FnOnce(Interface, Option<String>) -> F,
) -> Result<()>
where
    F: Future<Output = Result<AgentSession>>,
{
    let (mut chosen, mut early) = (None, Vec::new());
    if options.resumes {
        chosen = resumed(environment, options.session_dir.as_deref(), screen, &mut work, &mut early).await?;
        if chosen.is_none() {
            return Ok(());
        }
    }
    let port = TuiPort::new(screen.clone());
    let entries = screen.clone();
    let ledger = Rc::new(OnceCell::new());
    let interface = Interface {
        mode: "tui",
        has_ui: true,
        is_interactive: true,
        front_end: Box::new(ScreenFrontEnd(screen.clone())),
        ui: Some(Arc::new(port.clone())),
        announces_dialogs: true,
        prompter: Some(Arc::new(port.clone())),
        observer: Some(Rc::new(ReportsOnScreen { screen: screen.clone(), ledger: Rc::clone(&ledger) })),
        wrap_state: Some(Box::new(move |state: Arc<dyn StateSink>| {
            Arc::new(EntryObserver { screen: entries, state, known: AtomicUsize::new(0) }) as Arc<dyn StateSink>
        })),
    };
    // While extensions load, they may prompt for permissions, and the user may leave.
    let assembled = tokio::select! {
        assembled = assemble(interface, chosen) => assembled?,
        () = until_exit(screen, &mut work, &mut early) => return Ok(()),
    };
    let session = Rc::new(assembled);
    // There is a single session.
    let _ = ledger.set(session.ledger().clone());
    port.publish_to(session.host.state().clone());
    publish_size(&session, screen);
    let resized = watch_size(Rc::clone(&session), screen.clone())?;
    let terminal = screen.clone();
    let mut stops = ShutdownSignals::listen(move || terminal.give_back())?;
    let host = session.host.clone();
    let talking = host.run(converse(environment, Rc::clone(&session), screen.clone(), port, options, early, work));
    let stopped = async {
        stops.next().await;
        screen.change(|view| view.leave());
        screen.ask(UiTask::Exit);
        // A second signal ends the session without waiting for extensions.
        stops.next().await;
    };
    let result = tokio::select! {
        result = talking => result,
        () = stopped => Err(UserError::interrupted()),
    };
    resized.abort();
    session.finish();
    result
}

/// Lets the user choose a session (`--resume`). Returns its file; `None` if the user chose none.
async fn resumed(
    environment: &Environment,
    session_dir: Option<&str>,
    screen: &Screen,
    work: &mut mpsc::UnboundedReceiver<UiTask>,
    early: &mut Vec<UiTask>,
) -> Result<Option<String>> {
    let found = selections::sessions(Sessions::new(environment, session_dir).folder(), None);
    if found.is_empty() {
        return Err(UserError::failed("there is no session of this folder yet").help("start one with: pi"));
    }
    let picker = Picker::new(ListKind::Session, "Which session?", found, None);
    screen.change(|view| view.push(Layer::Picker(picker)));
    while let Some(asked) = work.recv().await {
        match asked {
            UiTask::Picked(ListKind::Session, file) => return Ok(Some(file)),
            UiTask::Unpicked | UiTask::Exit => return Ok(None),
            UiTask::Suspend => screen.suspend(),
            asked => early.push(asked),
        }
    }
    Ok(None)
}

/// Waits until the user leaves. Keeps other tasks for later, and shows typed prompts as queued.
async fn until_exit(screen: &Screen, work: &mut mpsc::UnboundedReceiver<UiTask>, early: &mut Vec<UiTask>) {
    while let Some(asked) = work.recv().await {
        match &asked {
            UiTask::Exit => return,
            UiTask::Say { text, .. } => screen.change(|view| view.conversation.queued.push(text.clone())),
            _ => {}
        }
        early.push(asked);
    }
}

/// Runs the session from its start until the user leaves.
async fn converse(
    environment: &Environment,
    session: Rc<AgentSession>,
    screen: Screen,
    port: TuiPort,
    options: TuiOptions,
    early: Vec<UiTask>,
    work: mpsc::UnboundedReceiver<UiTask>,
) -> Result<()> {
    let commands = Rc::new(UserCommands::new(Rc::clone(&session), screen.clone(), port, environment.clone()));
    let components = Components::new(session.host.clone(), screen.clone(), session.cwd.clone());
    let control = session.agent.control().clone();
    let (leave, mut left) = mpsc::unbounded_channel();
    let asked_to_leave = leave.clone();
    control.on_shutdown(move || {
        // The receiver may already be gone.
        let _ = asked_to_leave.send(());
    });
    prepare_screen(environment, &options, &commands, &screen);
    // Started before the session, because `session_start` handlers show components and dialogs.
    let (serving, mut tasks) = mpsc::unbounded_channel();
    let server = tokio::task::spawn_local(dispatch(early, work, components, serving, leave, screen.clone()));

    let conversation = session.agent.attend(async {
        session.start().await?;
        session.look_up_models();
        // Extensions may have registered themes.
        commands.publish_themes();
        commands.publish();
        if control.model().is_some_and(|model| model.is_unknown()) {
            commands.warn(NO_MODEL);
        }
        if options.is_verbose {
            commands.say_what_is_loaded();
        }
        // The agent has received the prompts that were typed while extensions loaded.
        screen.change(|view| view.conversation.queued.clear());
        commands.begin(options.prompts);
        while let Some(task) = tasks.recv().await {
            commands.take(task);
        }
        Ok::<(), AgentError>(())
    });
    let result = tokio::select! {
        result = conversation => result.map_err(Into::into),
        _ = left.recv() => Ok(()),
    };
    screen.change(|view| view.leave());
    server.abort();
    control.abort();
    let goodbye = async {
        control.settled().await;
        session.keep_tools();
        session.agent.shutdown("quit").await;
        let _ = tokio::time::timeout(WIND_DOWN, session.host.quiet()).await;
    };
    if tokio::time::timeout(SHUTDOWN_GRACE, goodbye).await.is_err() {
        environment
            .notices
            .warn(format!("the session did not end within {} s and was abandoned", SHUTDOWN_GRACE.as_secs()));
    }
    result.and_then(|()| control.exit_code().map_or(Ok(()), UserError::left))
}

/// Shows theme, footer, settings and the entries of an existing session.
fn prepare_screen(environment: &Environment, options: &TuiOptions, commands: &UserCommands, screen: &Screen) {
    commands.publish_themes();
    match &options.theme {
        Some(theme) => commands.port.choose_theme(theme),
        None => commands.take_own_theme(),
    }
    screen.change(|view| {
        view.session.footer.place = footer::place(&environment.dirs.cwd, &environment.dirs.home);
    });
    take_settings(environment, screen, options.is_verbose);
    // Shows notices from the start below the earlier conversation.
    let notices = screen.change(|view| view.conversation.transcript.take());
    show_session(&commands.session, screen);
    screen.change(|view| view.conversation.transcript.put_back(notices));
}

/// Passes tasks to components or, through `serving`, to the commands. Notifies `leave` when the user leaves.
async fn dispatch(
    early: Vec<UiTask>,
    mut work: mpsc::UnboundedReceiver<UiTask>,
    components: Components,
    serving: mpsc::UnboundedSender<UiTask>,
    leave: mpsc::UnboundedSender<()>,
    screen: Screen,
) {
    let mut early = early.into_iter();
    loop {
        let task = match early.next() {
            Some(task) => Some(task),
            None => work.recv().await,
        };
        match task {
            None | Some(UiTask::Exit) => {
                let _ = leave.send(());
            }
            Some(UiTask::Suspend) => screen.suspend(),
            Some(task) => {
                let Some(task) = components.take(task) else { continue };
                let _ = serving.send(task);
                continue;
            }
        }
        if screen.read(|view| view.session.is_leaving) {
            return;
        }
    }
}

/// Applies the user's settings for the screen.
fn take_settings(environment: &Environment, screen: &Screen, is_verbose: bool) {
    let settings = settings::merged(environment);
    let is_on = |key: &str| settings.get(key).and_then(Value::as_bool).unwrap_or(false);
    screen.change(|view| {
        if is_verbose || !is_on("quietStartup") {
            view.session.welcome = WELCOME.map(str::to_owned).to_vec();
        }
        view.keys.escapes_to = match settings.get("doubleEscapeAction").and_then(Value::as_str) {
            Some("fork") => Some(ListKind::Fork),
            Some("none") => None,
            _ => Some(ListKind::Tree),
        };
        if is_on("hideThinkingBlock") {
            view.conversation.transcript.toggle_thinking();
        }
    });
}

/// Shows the entries of the session.
fn show_session(session: &AgentSession, screen: &Screen) {
    // The next prompt reports an unreadable session.
    let branch = session.agent.control().with_session(Session::seen).unwrap_or_default();
    let (name, spent) =
        session.agent.control().with_session(|session| (session.name().map(str::to_owned), SessionUsage::of(session)));
    screen.change(|view| {
        events::replay(view, &branch);
        view.session.set_name(name.as_deref());
        view.session.footer.spent = spent;
    });
}

/// Publishes the size of the terminal to components.
fn publish_size(session: &AgentSession, screen: &Screen) {
    let (columns, rows) = screen.read(|view| view.size);
    session.host.set_state("screen", json!({"width": columns, "height": rows}));
}

fn watch_size(session: Rc<AgentSession>, screen: Screen) -> Result<tokio::task::JoinHandle<()>> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut changes = signal(SignalKind::window_change())
        .map_err(|error| UserError::failed(format!("cannot listen to signals: {error}")))?;
    Ok(tokio::task::spawn_local(async move {
        while changes.recv().await.is_some() {
            screen.measure();
            publish_size(&session, &screen);
            screen.resized();
        }
    }))
}
