//! When to end.

use tokio::signal::unix::{SignalKind, signal as unix_signal};
use tokio_util::sync::CancellationToken;

/// A token that is cancelled at the first SIGTERM or SIGINT. A second one ends the process at once.
pub fn signal() -> std::io::Result<CancellationToken> {
    let mut term = unix_signal(SignalKind::terminate())?;
    let mut int = unix_signal(SignalKind::interrupt())?;
    let token = CancellationToken::new();
    let cancelled = token.clone();
    tokio::spawn(async move {
        for again in [false, true] {
            let name = tokio::select! {
                _ = term.recv() => "SIGTERM",
                _ = int.recv() => "SIGINT",
            };
            if again {
                tracing::warn!(signal = name, "ending at once");
                std::process::exit(130);
            }
            tracing::info!(signal = name, "draining");
            cancelled.cancel();
        }
    });
    Ok(token)
}
