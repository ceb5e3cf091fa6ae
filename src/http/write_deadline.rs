//! A connection whose client has to take its answers within a time.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

/// Fails a write that is not through within a time. The time begins with the first byte and ends with the flush after the
/// last one, so that a client who takes one byte now and then gains nothing.
#[derive(Debug)]
pub(super) struct WriteDeadline<S> {
    stream: S,
    limit: Duration,
    /// Kept when it is not in use: there are many answers, and one timer.
    sleep: Pin<Box<Sleep>>,
    writing: bool,
}

impl<S> WriteDeadline<S> {
    pub(super) fn new(stream: S, limit: Duration) -> Self {
        Self {
            stream,
            limit,
            sleep: Box::pin(tokio::time::sleep(limit)),
            writing: false,
        }
    }

    /// Passes on what became of a write, or that its time is over.
    fn limited<T>(
        &mut self,
        cx: &mut Context<'_>,
        done: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if !self.writing {
            self.writing = true;
            self.sleep.as_mut().reset(Instant::now() + self.limit);
        }
        if done.is_ready() {
            return done;
        }
        ready!(self.sleep.as_mut().poll(cx));
        Poll::Ready(Err(io::Error::new(
            io::ErrorKind::TimedOut,
            "the client did not take the answer in time",
        )))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for WriteDeadline<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for WriteDeadline<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let done = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.limited(cx, done)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffers: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let done = Pin::new(&mut self.stream).poll_write_vectored(cx, buffers);
        self.limited(cx, done)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let done = Pin::new(&mut self.stream).poll_flush(cx);
        // Nobody flushes before everything is written, and many who wrote nothing do.
        if done.is_ready() {
            self.writing = false;
            return done;
        }
        self.limited(cx, done)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let done = Pin::new(&mut self.stream).poll_shutdown(cx);
        self.limited(cx, done)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    const LIMIT: Duration = Duration::from_secs(10);

    #[tokio::test(start_paused = true)]
    async fn taking_a_byte_now_and_then_gains_nothing() {
        let (ours, mut theirs) = tokio::io::duplex(4);
        let mut ours = WriteDeadline::new(ours, LIMIT);
        let start = Instant::now();
        let slow = async {
            let mut byte = [0];
            loop {
                tokio::time::sleep(LIMIT / 4).await;
                theirs.read_exact(&mut byte).await.unwrap();
            }
        };
        let written = async {
            ours.write_all(&[0; 64]).await?;
            ours.flush().await
        };
        let error = tokio::select! {
            written = written => written.unwrap_err(),
            () = slow => unreachable!(),
        };
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert_eq!(start.elapsed(), LIMIT);
    }

    #[tokio::test(start_paused = true)]
    async fn each_answer_has_its_own_time() {
        let (ours, mut theirs) = tokio::io::duplex(4);
        let mut ours = WriteDeadline::new(ours, LIMIT);
        let mut taken = [0; 8];
        for _ in 0..3 {
            let take = async {
                tokio::time::sleep(LIMIT * 3 / 4).await;
                theirs.read_exact(&mut taken).await.unwrap();
            };
            let write = async {
                ours.write_all(&[0; 8]).await.unwrap();
                ours.flush().await.unwrap();
            };
            tokio::join!(take, write);
            // What lies between two answers does not count.
            tokio::time::sleep(LIMIT * 2).await;
        }
    }
}
