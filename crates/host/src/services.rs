//! The services of a host.

use crate::options::{HostOptions, OpenRealm, Watchdog};
use crate::report::Observer;
use crate::source_excerpts::SourceExcerpts;
use pijs_artifact::Verified;
use pijs_environment::Timer;
use pijs_hostcall::Dispatcher;
use std::rc::Rc;
use std::sync::Arc;

/// Services and options from the builder, constant for the life of the host.
pub(crate) struct Services {
    pub(crate) modules: Arc<Verified>,
    pub(crate) dispatcher: Arc<Dispatcher>,
    pub(crate) timer: Arc<dyn Timer>,
    pub(crate) options: HostOptions,
    pub(crate) opener: Box<dyn OpenRealm>,
    pub(crate) watchdog: Option<Box<dyn Watchdog>>,
    pub(crate) observer: Option<Rc<dyn Observer>>,
    pub(crate) source_excerpts: SourceExcerpts,
}
