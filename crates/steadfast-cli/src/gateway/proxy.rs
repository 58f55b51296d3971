//! Requests without a key: passed on, streamed both ways, and sent again where that is safe.
//!
//! The loop is here, and nothing that decides: whether and when another attempt follows is
//! [`steadfast_core::retry`]'s, asked through [`steadfast::client::Attempts`]. No attempt waits for
//! the request's body to be whole (`tape` keeps what was read), and once the head of an answer was
//! passed on nothing is repeated: to hold it back until its body begins would take from every
//! stream what only a cut body would gain.

mod course;
mod forwarded;
mod given;
mod held;
mod staying;
mod tape;
mod told;

use http::{Request, Response};
use steadfast::body::Body;
use steadfast::event::RequestOutcome;
use steadfast_core::deadline::Deadline;

use super::upstream::Upstream;
use course::Course;
use staying::Staying;

pub use forwarded::write_forwarded;
pub use held::HELD_BYTES;
pub use staying::{Places, STAYING_MAX};

/// What its caller is given, in a word and whole.
type Given = (RequestOutcome, Response<Body>);

/// Passes `request` on, and its answer back, with its trailers where the caller takes them. A write
/// that is being sent when its caller leaves stays in one of `places` until its attempt ends.
pub async fn forward(
    upstream: Upstream,
    request: Request<Body>,
    deadline: Deadline,
    takes_trailers: bool,
    places: &Places,
) -> Given {
    let safe = request.method().is_safe();
    let course = Course::new(upstream, request, deadline, takes_trailers);
    if safe {
        return course.run().await;
    }
    let stage = course.stage.clone();
    Staying::new(course.run(), stage, places.clone()).await
}
