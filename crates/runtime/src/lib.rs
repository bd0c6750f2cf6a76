//! What every service starts with: configuration, telemetry, health, reflection, shutdown.
