//! The requests that a server may make of the client, and the notices that it sends.

use crate::asks::{self, Asked};
use crate::calls::Calls;
use crate::session_port::SessionPort;
use rmcp::model::{
    ClientCapabilities, ClientConfig, CreateMessageRequestParams, CreateMessageResult, ElicitRequestParams,
    ElicitResult, ElicitationAction, ElicitationCapability, FormElicitationCapability, Implementation, ListRootsResult,
    LoggingMessageNotificationParam, ProgressNotificationParam, ProgressToken, ProtocolVersion, Root,
    RootsCapabilities, SamplingCapability,
};
use rmcp::service::{NotificationContext, RequestContext};
use rmcp::{ClientHandler, ErrorData, RoleClient};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Reports of progress that come before somebody waits for them.
const MAX_EARLY: usize = 64;
/// Questions to the user that a server may have open at once.
const MAX_QUESTIONS: u32 = 2;
/// Log lines of one connection that are kept.
const MAX_LOGGED: u32 = 1000;

/// Takes reports of progress: how far, of how much, and a message.
pub(crate) type Progress = Box<dyn Fn(f64, Option<f64>, Option<String>) + Send + Sync>;

/// Answers one server.
#[derive(Clone)]
pub(crate) struct Handler(Arc<Inner>);

struct Inner {
    server: String,
    session: Arc<dyn SessionPort>,
    calls: Calls,
    progress: Arc<Mutex<Waiting>>,
    questions: AtomicU32,
    logged: AtomicU32,
    /// Told when the server says that its tools are others.
    changed: Box<dyn Fn() + Send + Sync>,
}

#[derive(Default)]
struct Waiting {
    by_token: BTreeMap<String, Progress>,
    early: Vec<ProgressNotificationParam>,
}

/// Reports of one request; dropping it ends them.
pub(crate) struct Reports {
    progress: Arc<Mutex<Waiting>>,
    token: String,
}

impl Drop for Reports {
    fn drop(&mut self) {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner).by_token.remove(&self.token);
    }
}

fn key(token: &ProgressToken) -> String {
    serde_json::to_string(token).unwrap_or_default()
}

fn tell(progress: &Progress, report: ProgressNotificationParam) {
    progress(report.progress, report.total, report.message.map(|text| crate::names::visible(&text, 1000)));
}

impl Handler {
    pub(crate) fn new(
        server: &str,
        (session, calls): (Arc<dyn SessionPort>, Calls),
        changed: Box<dyn Fn() + Send + Sync>,
    ) -> Self {
        let (progress, questions, logged) = Default::default();
        Self(Arc::new(Inner { server: server.to_owned(), session, calls, progress, questions, logged, changed }))
    }

    /// Hands reports on a request to `progress`, those first that have come already.
    pub(crate) fn reports(&self, token: ProgressToken, progress: Progress) -> Reports {
        let token = key(&token);
        let mut waiting = self.0.progress.lock().unwrap_or_else(PoisonError::into_inner);
        let (early, others) =
            std::mem::take(&mut waiting.early).into_iter().partition(|early| key(&early.progress_token) == token);
        waiting.early = others;
        for report in early {
            tell(&progress, report);
        }
        waiting.by_token.insert(token.clone(), progress);
        Reports { progress: Arc::clone(&self.0.progress), token }
    }

    /// Whether the server may ask one thing more of the user or the model; until the value is dropped.
    fn asks(&self) -> Option<Open<'_>> {
        // Dropped where there are too many, it takes back what is counted here.
        let before = self.0.questions.fetch_add(1, Ordering::Relaxed);
        let open = Open(&self.0.questions);
        (before < MAX_QUESTIONS).then_some(open)
    }
}

struct Open<'a>(&'a AtomicU32);

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl ClientHandler for Handler {
    fn get_info(&self) -> ClientConfig {
        let mut capabilities = ClientCapabilities::default();
        capabilities.roots = Some(RootsCapabilities::default());
        if self.0.session.asks_users() {
            capabilities.elicitation = Some(ElicitationCapability::new().with_form(FormElicitationCapability::new()));
        }
        if self.0.session.model().is_some() {
            capabilities.sampling = Some(SamplingCapability::default());
        }
        let mut config = ClientConfig::new(capabilities, Implementation::new("pi", env!("CARGO_PKG_VERSION")));
        // The newest with a handshake; a server that knows older ones only answers with its own.
        config.protocol_version = ProtocolVersion::LATEST_WITH_INITIALIZE;
        config
    }

    async fn list_roots(&self, _context: RequestContext<RoleClient>) -> Result<ListRootsResult, ErrorData> {
        let root = |path: &std::path::PathBuf| Some(Root::new(url::Url::from_file_path(path).ok()?.to_string()));
        Ok(ListRootsResult::new(self.0.session.roots().iter().filter_map(root).collect()))
    }

    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        _context: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        let ElicitRequestParams::FormElicitationParams { message, requested_schema, .. } = request else {
            return Ok(ElicitResult::new(ElicitationAction::Decline));
        };
        let Some(_open) = self.asks().filter(|_| self.0.session.asks_users()) else {
            return Ok(ElicitResult::new(ElicitationAction::Cancel));
        };
        let schema = serde_json::to_value(requested_schema).unwrap_or_default();
        let message = crate::names::visible(&message, 2000);
        Ok(match asks::elicit(&self.0.calls, &self.0.server, &message, &schema).await {
            Asked::Given(content) => ElicitResult::new(ElicitationAction::Accept).with_content(content),
            Asked::Declined => ElicitResult::new(ElicitationAction::Decline),
            Asked::Cancelled => ElicitResult::new(ElicitationAction::Cancel),
        })
    }

    async fn create_message(
        &self,
        params: CreateMessageRequestParams,
        _context: RequestContext<RoleClient>,
    ) -> Result<CreateMessageResult, ErrorData> {
        let refused = |problem: String| ErrorData::invalid_request(problem, None);
        let _open = self.asks().ok_or_else(|| refused("too many requests at once".to_owned()))?;
        let model = self.0.session.model().ok_or_else(|| refused("the session has no model".to_owned()))?;
        asks::sample(&self.0.calls, model, params).await.map_err(refused)
    }

    async fn on_progress(&self, report: ProgressNotificationParam, _context: NotificationContext<RoleClient>) {
        let mut waiting = self.0.progress.lock().unwrap_or_else(PoisonError::into_inner);
        match waiting.by_token.get(&key(&report.progress_token)) {
            Some(progress) => tell(progress, report),
            None if waiting.early.len() < MAX_EARLY => waiting.early.push(report),
            None => {}
        }
    }

    async fn on_logging_message(
        &self,
        line: LoggingMessageNotificationParam,
        _context: NotificationContext<RoleClient>,
    ) {
        if self.0.logged.fetch_add(1, Ordering::Relaxed) < MAX_LOGGED {
            let level = serde_json::to_value(line.level).ok().and_then(|level| level.as_str().map(str::to_owned));
            let said = line.data.as_str().map_or_else(|| line.data.to_string(), str::to_owned);
            let said = crate::names::visible(&said, 2000);
            self.0.session.log(&self.0.calls.caller, level.as_deref().unwrap_or("info"), line.logger.as_deref(), &said);
        }
    }

    async fn on_tool_list_changed(&self, _context: NotificationContext<RoleClient>) {
        (self.0.changed)();
    }

    async fn on_prompt_list_changed(&self, _context: NotificationContext<RoleClient>) {
        (self.0.changed)();
    }
}
