//! How watching behaves.

use std::time::Duration;

/// How watching behaves. The defaults are those of the public contract; tests shorten them.
#[derive(Clone, Debug)]
pub struct WatchConfig {
    /// Silence after which a heartbeat is sent.
    pub heartbeat: Duration,
    /// Age at which a stream is closed with a resume hint, give or take a tenth.
    pub stream_age: Duration,
    /// How long a client may take nothing that is ready for it; then what is kept for its stream is given up, and when
    /// it reads on it finds a resume hint.
    pub stall: Duration,
    /// How often the heads of all watched runs are checked against the log. An event that fan-out kept from us reaches
    /// its watchers after this time at most, a twentieth of it, and what the store takes for two look-ups: with the
    /// default of 600 ms that is a second as long as the store takes less than 370 ms.
    pub head_check: Duration,
    /// How often the store is asked what has changed in the list of runs, while somebody watches it.
    pub list_check: Duration,
    /// How long a run, or the list of runs, is followed after its last watcher has gone.
    pub linger: Duration,
    /// How often a stream looks, give or take a quarter, whether whoever opened it has the rights that they had.
    pub rights_check: Duration,
    /// Recent events kept per watched run.
    pub window_events: usize,
    /// Bytes of recent events kept per watched run.
    pub window_bytes: usize,
}

impl Default for WatchConfig {
    fn default() -> Self {
        Self {
            heartbeat: Duration::from_secs(10),
            stream_age: Duration::from_secs(3_600),
            stall: Duration::from_secs(60),
            head_check: Duration::from_millis(600),
            list_check: Duration::from_secs(1),
            linger: Duration::from_secs(5),
            rights_check: Duration::from_secs(20),
            window_events: 4_096,
            window_bytes: 4 * 1024 * 1024,
        }
    }
}
