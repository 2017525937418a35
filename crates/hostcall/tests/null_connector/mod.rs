//! A connector without effects, for tests of the steps before it.

use pijs_hostcall::{BoxFuture, ChunkSink, Connector, Output, Request};
use pijs_protocol::HostcallError;

pub(crate) struct NullConnector;

impl Connector for NullConnector {
    fn call(&self, _: Request, _: ChunkSink) -> BoxFuture<'static, Result<Output, HostcallError>> {
        Box::pin(std::future::ready(Ok(Output::empty())))
    }

    fn call_sync(&self, _: &Request) -> Result<Output, HostcallError> {
        Ok(Output::empty())
    }
}
