//! Shutdown by signals.

use tokio::signal::unix::{Signal, SignalKind, signal as unix_signal};
use tokio_util::sync::CancellationToken;

/// Returns a token that the first SIGTERM or SIGINT cancels. A second signal ends the process immediately.
pub fn signal() -> std::io::Result<CancellationToken> {
    signal_with(|| ())
}

/// The same; `before_exit` runs before a second signal ends the process, such as to restore the terminal.
pub fn signal_with(before_exit: impl FnOnce() + Send + 'static) -> std::io::Result<CancellationToken> {
    let mut term = unix_signal(SignalKind::terminate())?;
    let mut int = unix_signal(SignalKind::interrupt())?;
    let token = CancellationToken::new();
    let cancelled = token.clone();
    tokio::spawn(async move {
        let signal = next(&mut term, &mut int).await;
        tracing::info!(signal, "draining");
        cancelled.cancel();
        let signal = next(&mut term, &mut int).await;
        tracing::warn!(signal, "ending at once");
        before_exit();
        std::process::exit(130);
    });
    Ok(token)
}

async fn next(term: &mut Signal, int: &mut Signal) -> &'static str {
    tokio::select! {
        _ = term.recv() => "SIGTERM",
        _ = int.recv() => "SIGINT",
    }
}
