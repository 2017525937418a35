//! Implements the commands of `pi mcp` that need a session: probing the servers, and signing in to one.
//!
//! A sign-in opens the user's browser and receives its redirect on a loopback address.

use crate::builder::SessionBuilder;
use crate::config::{Permissions, SessionChoice, SessionConfig, StoreConfig};
use crate::environment::Environment;
use crate::interface::Interface;
use crate::mcp::auth_file::McpAuthFile;
use crate::user_error::{Result, UserError};
use pijs_environment::{Ambient, Wait};
use pijs_mcp::Servers;
use pijs_mcp::config::ServerConfig;
use pijs_mcp::oauth::PendingSignIn;
use pijs_mcp::server::Status;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use url::Url;

/// Maximum time that the user may take to sign in.
const SIGN_IN_TIMEOUT: Duration = Duration::from_secs(10 * 60);
/// Maximum wait for a browser's request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum length of a browser's request, in bytes.
const MAX_REQUEST: usize = 16 << 10;
/// Path of the redirect URL.
const PATH: &str = "/callback";

/// Callback that shows an address and the name of a server.
type Show<'a> = Box<dyn Fn(&str, &str) + 'a>;

/// User interface of a sign-in.
pub struct LoginInterface<'a> {
    /// Shows the address of the page, and the name of its authorization server.
    pub show: Show<'a>,
    /// Redirect addresses that the user pastes, if the browser cannot reach this machine.
    pub pasted: mpsc::UnboundedReceiver<String>,
    /// Answers the gate's questions.
    pub interface: Interface,
}

/// Starts the servers of `mcp.json`, queries their tools, prompts and resources, and stops them.
///
/// # Errors
///
/// Fails if a file cannot be read, or if the session that runs the servers cannot be built.
pub async fn probe(environment: &Environment, permissions: Permissions, interface: Interface) -> Result<Vec<Status>> {
    let store = StoreConfig { choice: SessionChoice::InMemory, ..StoreConfig::default() };
    let config = SessionConfig { permissions, store, ..SessionConfig::default() };
    let loaded = SessionBuilder::new(environment).config(config).interface(interface).servers_only().load().await?;
    let mut statuses = Vec::new();
    if let Some(mcp) = &loaded.outputs.mcp {
        mcp.begin(&loaded.loader, true).await;
        statuses = mcp.statuses();
        mcp.end();
    }
    loaded.close_quietly();
    Ok(statuses)
}

/// Signs in to a server of `mcp.json`.
///
/// # Errors
///
/// Fails if the server has no sign-in, or if the user or the authorization server refused.
pub async fn login(environment: &Environment, config: &ServerConfig, login: LoginInterface<'_>) -> Result<()> {
    let LoginInterface { show, mut pasted, interface } = login;
    let store = StoreConfig { choice: SessionChoice::InMemory, ..StoreConfig::default() };
    let session = SessionConfig { store, ..SessionConfig::default() };
    let loaded = SessionBuilder::new(environment).config(session).interface(interface).servers_only().load().await?;
    let mcp = loaded.outputs.mcp.clone().ok_or_else(|| UserError::failed("there are no MCP servers here"))?;
    let outcome = sign_in(mcp.open(&loaded.loader), config, &show, &mut pasted).await;
    mcp.end();
    loaded.close_quietly();
    outcome.map_err(|problem| UserError::failed(format!("{}: {problem}", config.name)))
}

/// Deletes the sign-in to a server; returns whether there was one.
///
/// # Errors
///
/// Fails if the file cannot be changed.
pub fn logout(environment: &Environment, config: &ServerConfig) -> Result<bool> {
    match config.sign_in_key() {
        Some(key) => McpAuthFile::new(environment).put(&key, None),
        None => Ok(false),
    }
}

async fn sign_in(
    servers: &Servers,
    config: &ServerConfig,
    show: &dyn Fn(&str, &str),
    pasted: &mut mpsc::UnboundedReceiver<String>,
) -> std::result::Result<(), String> {
    let ambient = Ambient::system();
    let port = config.oauth.as_ref().and_then(|settings| settings.callback_port).unwrap_or(0);
    let listener = TcpListener::bind(("127.0.0.1", port)).await;
    let listener = listener.map_err(|error| format!("port {port} of 127.0.0.1 cannot be used: {error}"))?;
    let port = listener.local_addr().map_err(|error| error.to_string())?.port();
    let origin = format!("http://127.0.0.1:{port}");
    let redirect = format!("{origin}{PATH}");
    let pending = servers.begin_sign_in(&config.name, &redirect, &*ambient.random).await?;
    show(pending.page.as_str(), &pending.issuer);
    let (sender, mut requests) = mpsc::channel(8);
    let timer = std::sync::Arc::clone(&ambient.timer);
    let listening = tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let (sender, origin, limit) = (sender.clone(), origin.clone(), timer.sleep(Wait::Idle, REQUEST_TIMEOUT));
            tokio::spawn(async move {
                tokio::select! {
                    () = take(stream, &origin, sender) => {}
                    () = limit => {}
                }
            });
        }
    });
    let code = tokio::select! {
        code = code_of(&pending, &mut requests, pasted) => code,
        () = ambient.timer.sleep(Wait::Idle, SIGN_IN_TIMEOUT) => Err("the sign-in was not completed within 10 minutes".to_owned()),
    };
    listening.abort();
    servers.complete_sign_in(&config.name, &pending, &code?).await
}

/// Waits for the authorization code, from the browser or pasted.
async fn code_of(
    pending: &PendingSignIn,
    requests: &mut mpsc::Receiver<(Url, TcpStream)>,
    pasted: &mut mpsc::UnboundedReceiver<String>,
) -> std::result::Result<String, String> {
    let mut can_paste = true;
    loop {
        let (url, stream) = tokio::select! {
            Some((url, stream)) = requests.recv() => (url, Some(stream)),
            line = pasted.recv(), if can_paste => match line {
                Some(line) => match Url::parse(line.trim()) {
                    Ok(url) => (url, None),
                    Err(_) => continue,
                },
                None => {
                    can_paste = false;
                    continue;
                }
            },
            else => return Err("the loopback address is closed".to_owned()),
        };
        let judged = pending.code(&url);
        if let Some(stream) = stream {
            let (status, text) = match &judged {
                Ok(Some(_)) => ("200 OK", "Signed in. You may close this page."),
                Ok(None) => ("400 Bad Request", "This page does not belong to the current sign-in."),
                Err(_) => ("400 Bad Request", "The sign-in failed; the terminal says why."),
            };
            reply(stream, status, text).await;
        }
        if let Some(code) = judged? {
            return Ok(code);
        }
    }
}

/// Reads one request of a browser and forwards it.
async fn take(mut stream: TcpStream, origin: &str, sender: mpsc::Sender<(Url, TcpStream)>) {
    let mut head = Vec::new();
    let mut piece = [0; 2048];
    while !head.windows(4).any(|four| four == b"\r\n\r\n") {
        match stream.read(&mut piece).await {
            Ok(0) | Err(_) => return,
            Ok(_) if head.len() > MAX_REQUEST => return,
            Ok(count) => head.extend_from_slice(&piece[..count]),
        }
    }
    let text = String::from_utf8_lossy(&head);
    let path = text.lines().next().and_then(|line| line.strip_prefix("GET ")).and_then(|rest| rest.split(' ').next());
    let url = path.filter(|path| path.starts_with('/')).and_then(|path| Url::parse(&format!("{origin}{path}")).ok());
    match url.filter(|url| url.path() == PATH) {
        Some(url) => drop(sender.send((url, stream)).await),
        None => reply(stream, "404 Not Found", "Nothing is here.").await,
    }
}

async fn reply(mut stream: TcpStream, status: &str, text: &str) {
    let length = text.len();
    let answer = format!(
        "HTTP/1.1 {status}\r\ncontent-type: text/plain; charset=utf-8\r\ncontent-length: {length}\r\nreferrer-policy: no-referrer\r\nconnection: close\r\n\r\n{text}"
    );
    let _ = stream.write_all(answer.as_bytes()).await;
    let _ = stream.shutdown().await;
}
