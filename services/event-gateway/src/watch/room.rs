//! How much may wait for one client.

/// Bytes of messages that a client may have waiting for it, beyond a first one: what it keeps alive while it stalls.
/// The others are looked up again when it has taken these.
pub(super) const READY_BYTES: usize = 256 * 1024;

/// The room for the next messages of one client.
#[derive(Default)]
pub(super) struct Room {
    used: usize,
}

impl Room {
    /// True if a message of this many bytes may wait, too. The first one always may.
    pub(super) fn takes(&mut self, bytes: usize) -> bool {
        let fits = self.used == 0 || self.used + bytes <= READY_BYTES;
        self.used += bytes;
        fits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many of these messages may wait together.
    fn taken(lengths: &[usize]) -> usize {
        let mut room = Room::default();
        lengths.iter().take_while(|bytes| room.takes(**bytes)).count()
    }

    #[test]
    fn what_waits_for_a_client_is_a_first_message_and_what_fits_with_it() {
        assert_eq!(taken(&[9 * READY_BYTES, 1]), 1);
        assert_eq!(taken(&[READY_BYTES / 2, READY_BYTES / 2, 1]), 2);
        assert_eq!(taken(&[READY_BYTES, 1]), 1);
        assert_eq!(taken(&vec![22 * 1024; 100]), 11);
        assert_eq!(taken(&vec![100; 256]), 256);
    }
}
