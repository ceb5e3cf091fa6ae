//! The body of an answer: whole, or one frame after the other.

use std::pin::Pin;
use std::task::{Context, Poll};

use futures::{Stream, StreamExt};
use hyper::body::{Body, Bytes, Frame, SizeHint};
use tower::BoxError;

/// A stream of frames. An error cuts the connection.
pub type Frames = Pin<Box<dyn Stream<Item = Result<Bytes, BoxError>> + Send>>;

/// The body of an answer.
pub enum AnswerBody {
    /// All of it.
    Whole(Option<Bytes>),
    /// A watch: each frame is one line, which is one event.
    Frames(Frames),
}

impl AnswerBody {
    /// A body that is there at once.
    pub fn whole(bytes: impl Into<Bytes>) -> Self {
        Self::Whole(Some(bytes.into()))
    }

    /// A body that comes frame by frame.
    pub fn frames(frames: impl Stream<Item = Result<Bytes, BoxError>> + Send + 'static) -> Self {
        Self::Frames(Box::pin(frames))
    }
}

impl Body for AnswerBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        match &mut *self {
            Self::Whole(bytes) => Poll::Ready(bytes.take().map(|b| Ok(Frame::data(b)))),
            Self::Frames(frames) => frames
                .poll_next_unpin(context)
                .map(|next| next.map(|frame| frame.map(Frame::data))),
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Self::Whole(None))
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, Bytes::len) as u64),
            Self::Frames(_) => SizeHint::default(),
        }
    }
}
