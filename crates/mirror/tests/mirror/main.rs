//! A search as a folder: reading what anybody may have put there, and writing it through failures and crashes.

mod bad_folders;
mod crashes;
mod edited;
mod growing;
mod locking;
mod runs;
mod support;
