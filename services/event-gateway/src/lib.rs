//! The public door: gRPC, gRPC-web and the web UI on one port.
