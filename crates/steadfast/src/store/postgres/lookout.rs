//! What other gateways wrote, for those who wait for a row: one statement for all of them, every
//! 20 ms, while somebody waits.
//!
//! A notification by the database would come sooner, but its commit takes a lock that all writers
//! of the database share.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;

use steadfast_core::key::ScopeHash;
use steadfast_core::record::Guard;
use tokio::runtime::Handle;

use super::reader::{self, Reader};
use crate::store::StoreError;
use crate::store::watch::{Foreign, Hub};

/// The thread that looks. Ends when dropped.
pub(super) struct Lookout {
    hub: Arc<Hub>,
    thread: Option<JoinHandle<()>>,
}

struct Looking {
    runtime: Handle,
    reader: Arc<Reader>,
}

impl Lookout {
    pub(super) fn start(
        hub: &Arc<Hub>,
        runtime: Handle,
        reader: Arc<Reader>,
    ) -> io::Result<Lookout> {
        let (hub, looked_at) = (Arc::clone(hub), Arc::clone(hub));
        let mut looking = Looking { runtime, reader };
        let thread = std::thread::Builder::new()
            .name("steadfast-lookout".to_owned())
            .spawn(move || looked_at.poll(&mut looking))?;
        let thread = Some(thread);
        Ok(Lookout { hub, thread })
    }
}

impl Drop for Lookout {
    fn drop(&mut self) {
        self.hub.end();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Foreign for Looking {
    fn may_have_written(&mut self) -> Result<bool, StoreError> {
        Ok(true)
    }

    fn guards(&mut self, scopes: &[ScopeHash]) -> Result<HashMap<ScopeHash, Guard>, StoreError> {
        let scopes = scopes.to_vec();
        let reading = self
            .reader
            .run(move |link| Box::pin(async move { reader::guards(link, &scopes).await }));
        self.runtime.block_on(reading)
    }
}
