//! Loopback ports for servers that start later, or again.

use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::ops::Range;

use anyhow::Context;

/// Below the ephemeral ports of Linux and macOS (from 32,768 and 49,152 on, by default). An ephemeral port could
/// become the local end of any connection while its server is down. A client that keeps dialling it may even connect
/// to itself.
const RANGE: Range<u16> = 10_000..30_000;
/// Number of attempts. Even if half of [`RANGE`] is taken, this many failures in a row do not happen.
const TRIES: usize = 200;

/// A TCP port of the loopback interface on which nobody listens. While this value lives, no other `Port` in any process
/// has the same number: the UDP port of that number is bound meanwhile as a reservation.
#[derive(Debug)]
pub struct Port {
    number: u16,
    _claim: UdpSocket,
}

impl Port {
    /// Takes one at random.
    ///
    /// # Errors
    /// When hardly any port is free.
    pub fn claim() -> anyhow::Result<Self> {
        let taken = (0..TRIES).find_map(|_| Self::take(fastrand::u16(RANGE)));
        taken.with_context(|| {
            format!("hardly any loopback port from {} to {} is free", RANGE.start, RANGE.end)
        })
    }

    fn take(number: u16) -> Option<Self> {
        let claim = UdpSocket::bind((Ipv4Addr::LOCALHOST, number)).ok()?;
        TcpListener::bind((Ipv4Addr::LOCALHOST, number)).is_ok().then_some(Self { number, _claim: claim })
    }

    /// Its number.
    pub fn number(&self) -> u16 {
        self.number
    }

    /// The address on which the server should listen.
    pub fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.number).into()
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::Port;

    #[test]
    fn a_port_that_is_held_is_given_to_nobody_else() {
        let port = Port::claim().unwrap();
        assert!(Port::take(port.number()).is_none(), "before its server listens");
        let server = TcpListener::bind(port.address()).unwrap();
        assert!(Port::take(port.number()).is_none(), "while its server listens");
        drop(server);
        assert!(Port::take(port.number()).is_none(), "while its server is down");
    }

    #[test]
    fn a_port_on_which_somebody_listens_without_a_claim_is_given_to_nobody() {
        let port = Port::claim().unwrap();
        let (number, server) = (port.number(), TcpListener::bind(port.address()).unwrap());
        drop(port);
        assert!(Port::take(number).is_none());
        drop(server);
    }
}
