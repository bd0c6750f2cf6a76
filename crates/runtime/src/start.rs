//! The start of every service: configuration, telemetry, signals and the listener, in the order in which they must
//! happen.

use std::net::SocketAddr;

use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::client::channel::ConnectArgs;
use crate::config::{ConfigError, ListenArgs, LogArgs, Problems};
use crate::server::listen::{self, BindError};
use crate::shutdown;
use crate::telemetry::{self, Telemetry, TelemetryError};

/// Why a service did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The configuration is wrong.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// Telemetry did not start.
    #[error(transparent)]
    Telemetry(#[from] TelemetryError),
    /// The address cannot be listened on.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// Signals cannot be waited for.
    #[error("signals cannot be waited for")]
    Signal(#[from] std::io::Error),
}

/// A service that is configured and logs, but does not listen yet.
#[must_use = "dropping it ends the export of traces"]
pub struct Startup {
    address: SocketAddr,
    _telemetry: Telemetry,
}

/// Checks the whole configuration (`check` does the service's own part, with `connect`) and starts telemetry. One error
/// lists all problems, and nothing is bound before. Must be called in a runtime, once per process.
pub fn configure<T>(
    service: &'static str,
    listen: &ListenArgs,
    log: &LogArgs,
    connect: &ConnectArgs,
    default_port: u16,
    check: impl FnOnce(&mut Problems) -> T,
) -> Result<(T, Startup), StartError> {
    let mut problems = Problems::default();
    let address = listen.address(default_port, &mut problems);
    let format = log.format(&mut problems);
    let config = check(&mut problems);
    problems.finish()?;
    // A problem with these arguments is the service's own to report.
    let connector = connect.check(&mut Problems::default());
    let telemetry = telemetry::init(service, &log.filter, format, &connector)?;
    Ok((config, Startup { address, _telemetry: telemetry }))
}

impl Startup {
    /// Listens, and returns the listener and a token that SIGTERM or an interrupt cancels.
    pub async fn listen(&self) -> Result<(TcpListener, CancellationToken), StartError> {
        Ok((listen::bind(self.address).await?, shutdown::signal()?))
    }
}
