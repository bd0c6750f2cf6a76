//! The language models against servers in this process that speak the providers' protocols: chat completions and
//! responses of OpenAI, messages of Anthropic and generateContent of Google, with streams of the shapes that those
//! providers send.

mod bad_input;
mod budget;
mod caching;
mod citing;
mod contract;
mod gemini;
mod homework;
mod hostile;
mod keys;
mod prompts;
mod provider;
mod reading;
mod reasoning;
mod refusals;
mod resilience;
mod roles;
mod search;
mod shapes;
mod support;
mod tools;
mod tree;
mod verifying;
