//! Listening on an address, with errors that say what to do.

use std::net::SocketAddr;

use tokio::net::TcpListener;

/// The address cannot be listened on.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// Another process uses the port.
    #[error(
        "{0} is in use by another process; end that process, or choose another address with --listen or TREE_AGENT_LISTEN (port 0 takes any free one)"
    )]
    InUse(SocketAddr),
    /// Any other cause.
    #[error("cannot listen on {address}")]
    Other {
        /// The address.
        address: SocketAddr,
        /// The cause.
        source: std::io::Error,
    },
}

/// Listens on `address`. With port 0 the listener's `local_addr` has the actual port.
pub async fn bind(address: SocketAddr) -> Result<TcpListener, BindError> {
    TcpListener::bind(address).await.map_err(|source| match source.kind() {
        std::io::ErrorKind::AddrInUse => BindError::InUse(address),
        _ => BindError::Other { address, source },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_conflict_names_the_address_and_the_remedy() {
        let first = bind(SocketAddr::from(([127, 0, 0, 1], 0))).await.unwrap();
        let address = first.local_addr().unwrap();
        let text = bind(address).await.unwrap_err().to_string();
        assert!(text.contains(&address.to_string()) && text.contains("--listen"), "{text}");
    }
}
