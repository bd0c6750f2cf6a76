//! Live runs: every event once, in order, to any number of clients.
//!
//! A [`Hub`](hub) per watched run keeps a window of recent events, each encoded once ([`frame`]); [`follow`] fills it
//! from fan-out and from the log. A [`Watcher`](watcher) per client is a cursor: it takes from the window, or from
//! the log when it is behind the window, so a slow client holds no memory and nobody up. [`Watches`](watches) owns
//! the hubs and asks the store more than once a second for the heads of all watched runs, so that a deaf fan-out is
//! noticed and bridged before an event is a second old. [`board`] follows the list of runs for all who watch it, and
//! a [`ListWatcher`] tells one client what its filter shows. [`document`] follows one document of a run in the same
//! way: the events say when it has grown, the store what was added. [`pace`] is what both kinds of stream have in
//! common, [`stats`] what they count. [`service`] puts the shared bytes on the wire as they are, and [`stall`] gives
//! up what clients never take.

mod board;
mod config;
mod document;
mod filter;
mod follow;
pub(crate) mod frame;
mod head;
mod hub;
mod list;
mod pace;
mod room;
pub(crate) mod service;
mod stall;
mod stats;
mod tree;
mod watcher;
mod watches;

pub(crate) use board::Board;
pub use config::WatchConfig;
pub(crate) use document::{DocumentStart, DocumentWatcher, Followed};
pub(crate) use filter::EventFilter;
pub(crate) use follow::feed;
pub(crate) use hub::{hear, pending, subscribe};
pub(crate) use list::{ListFrom, ListStart, ListWatcher, since};
pub(crate) use pace::{Until, Watching};
pub(crate) use service::CHUNK;
pub(crate) use stall::{Line, Stalls};
pub(crate) use watcher::{Start, Watcher};
pub(crate) use watches::{Feed, Watches};
