//! The way to an upstream: the client that repeats safely, and the pool of connections below it.
//!
//! [`ClientLayer`] goes before any tower service; the pool gives evidence of what was sent. Whether
//! an operation may be sent again is [`steadfast_core::retry`]'s decision alone; the pool repeats
//! nothing on its own.

mod answer_body;
mod ended;
mod evidence;
mod hop;
mod layer;
mod over_pool;
pub mod pool;
mod ready;
mod redirect;
mod request_body;
mod run;
mod settings;
mod story;
mod target;
mod tls;
mod way;

pub use answer_body::{AnswerBody, AnswerCut};
pub use ended::{Account, Ended, NoAnswer};
pub use evidence::{Evidence, OwnErrors, Seen};
pub use hop::Carried;
pub use layer::{ClientLayer, ClientService};
pub use ready::{Client, ClientBody, ClientBuilder};
pub use request_body::{AttemptBody, RequestBody};
pub use story::{Story, Told};
pub use target::{Scheme, Target, TargetError};
pub use tls::{TlsError, TlsFiles, TlsPart, UpstreamTls};

pub use crate::attempts::{Asked, Attempts, Leave, Rules, SharedUpstream};
