//! Worlds without number: the driver and the gateway's streams under every fault that a seed enables.

#![allow(missing_docs, unreachable_pub)]

mod flaws;
mod found;
mod seeds;
