//! Handles requests and notifications of a server.

use crate::calls::Calls;
use crate::client_features::{self, ElicitationOutcome};
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

/// Maximum number of progress reports that are kept before their request is registered.
const MAX_EARLY: usize = 64;
/// Maximum number of concurrent elicitation and sampling requests of a server.
const MAX_REQUESTS: u32 = 2;
/// Maximum number of log lines of one connection.
const MAX_LOGGED: u32 = 1000;

/// Receives progress reports: progress, total and message.
pub(crate) type Progress = Box<dyn Fn(f64, Option<f64>, Option<String>) + Send + Sync>;

/// Handles requests and notifications of one server.
#[derive(Clone)]
pub(crate) struct Handler(Arc<Inner>);

struct Inner {
    server: String,
    session: Arc<dyn SessionPort>,
    calls: Calls,
    progress: Arc<Mutex<ProgressRoutes>>,
    requests: AtomicU32,
    logged: AtomicU32,
    /// Called when the server announces a change of its tools or prompts.
    changed: Box<dyn Fn() + Send + Sync>,
}

#[derive(Default)]
struct ProgressRoutes {
    by_token: BTreeMap<String, Progress>,
    early: Vec<ProgressNotificationParam>,
}

/// The registration of a request for progress reports; dropping it ends the registration.
pub(crate) struct ProgressRegistration {
    progress: Arc<Mutex<ProgressRoutes>>,
    token: String,
}

impl Drop for ProgressRegistration {
    fn drop(&mut self) {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner).by_token.remove(&self.token);
    }
}

fn key(token: &ProgressToken) -> String {
    serde_json::to_string(token).unwrap_or_default()
}

fn report_progress(progress: &Progress, report: ProgressNotificationParam) {
    progress(report.progress, report.total, report.message.map(|text| crate::names::visible(&text, 1000)));
}

impl Handler {
    pub(crate) fn new(
        server: &str,
        (session, calls): (Arc<dyn SessionPort>, Calls),
        changed: Box<dyn Fn() + Send + Sync>,
    ) -> Self {
        let (progress, requests, logged) = Default::default();
        Self(Arc::new(Inner { server: server.to_owned(), session, calls, progress, requests, logged, changed }))
    }

    /// Registers a request for progress reports, and delivers the reports that arrived before.
    pub(crate) fn register_progress(&self, token: ProgressToken, progress: Progress) -> ProgressRegistration {
        let token = key(&token);
        let mut routes = self.0.progress.lock().unwrap_or_else(PoisonError::into_inner);
        let (early, others) =
            std::mem::take(&mut routes.early).into_iter().partition(|early| key(&early.progress_token) == token);
        routes.early = others;
        for report in early {
            report_progress(&progress, report);
        }
        routes.by_token.insert(token.clone(), progress);
        ProgressRegistration { progress: Arc::clone(&self.0.progress), token }
    }

    /// Returns a permit for a request to the user or the model; `None` if too many are open.
    fn begin_request(&self) -> Option<RequestPermit<'_>> {
        // Dropping the permit undoes this increment, even for a permit beyond the limit.
        let before = self.0.requests.fetch_add(1, Ordering::Relaxed);
        let permit = RequestPermit(&self.0.requests);
        (before < MAX_REQUESTS).then_some(permit)
    }
}

struct RequestPermit<'a>(&'a AtomicU32);

impl Drop for RequestPermit<'_> {
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
        // The newest version with a handshake. A server that only supports older versions answers with its own version.
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
        let Some(_permit) = self.begin_request().filter(|_| self.0.session.asks_users()) else {
            return Ok(ElicitResult::new(ElicitationAction::Cancel));
        };
        let schema = serde_json::to_value(requested_schema).unwrap_or_default();
        let message = crate::names::visible(&message, 2000);
        Ok(match client_features::elicit(&self.0.calls, &self.0.server, &message, &schema).await {
            ElicitationOutcome::Accepted(content) => ElicitResult::new(ElicitationAction::Accept).with_content(content),
            ElicitationOutcome::Declined => ElicitResult::new(ElicitationAction::Decline),
            ElicitationOutcome::Cancelled => ElicitResult::new(ElicitationAction::Cancel),
        })
    }

    async fn create_message(
        &self,
        params: CreateMessageRequestParams,
        _context: RequestContext<RoleClient>,
    ) -> Result<CreateMessageResult, ErrorData> {
        let refused = |problem: String| ErrorData::invalid_request(problem, None);
        let _permit = self
            .begin_request()
            .ok_or_else(|| refused("too many concurrent requests; wait for an earlier one".to_owned()))?;
        let model = self.0.session.model().ok_or_else(|| refused("the session has no model".to_owned()))?;
        client_features::sample(&self.0.calls, model, params).await.map_err(refused)
    }

    async fn on_progress(&self, report: ProgressNotificationParam, _context: NotificationContext<RoleClient>) {
        let mut routes = self.0.progress.lock().unwrap_or_else(PoisonError::into_inner);
        match routes.by_token.get(&key(&report.progress_token)) {
            Some(progress) => report_progress(progress, report),
            None if routes.early.len() < MAX_EARLY => routes.early.push(report),
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
