//! How the messages of a request body are framed. It says how much memory a reader of the body will need: the gRPC
//! library allocates the announced length of a message before the message arrives.

use http::{HeaderMap, header};

/// Bytes of the prefix of a gRPC message: a flag and the length of the message.
pub(super) const PREFIX: usize = 5;

/// The framing of a request body.
#[derive(Debug)]
pub(super) enum Framing {
    /// One message without a frame, as in the Connect protocol.
    Plain,
    /// gRPC and gRPC-web: a prefix announces the length of each message.
    Prefixed(Prefixes),
    /// gRPC-web in base64. The prefixes are not looked at.
    Base64,
}

impl Framing {
    /// The framing that the content type declares.
    pub(super) fn of(headers: &HeaderMap) -> Self {
        let content_type = headers.get(header::CONTENT_TYPE).map_or(&b""[..], |value| value.as_bytes());
        match content_type {
            text if text.starts_with(b"application/grpc-web-text") => Self::Base64,
            grpc if grpc.starts_with(b"application/grpc") => Self::Prefixed(Prefixes::default()),
            _ => Self::Plain,
        }
    }
}

/// Finds the prefixes in the parts of a body.
#[derive(Debug, Default)]
pub(super) struct Prefixes {
    /// The prefix that is arriving.
    prefix: [u8; PREFIX],
    /// How much of it has arrived.
    arrived: usize,
    /// Bytes of the current message that have not arrived.
    missing: usize,
}

impl Prefixes {
    /// Calls `announced` with the length of each message whose prefix ends in `part`, prefix included, until one is
    /// refused.
    pub(super) fn scan<E>(
        &mut self,
        mut part: &[u8],
        mut announced: impl FnMut(usize) -> Result<(), E>,
    ) -> Result<(), E> {
        while !part.is_empty() {
            let message = self.missing.min(part.len());
            self.missing -= message;
            part = &part[message..];
            let taken = part.len().min(PREFIX - self.arrived);
            self.prefix[self.arrived..self.arrived + taken].copy_from_slice(&part[..taken]);
            self.arrived += taken;
            part = &part[taken..];
            if self.arrived == PREFIX {
                let [_, length @ ..] = self.prefix;
                self.arrived = 0;
                self.missing = u32::from_be_bytes(length) as usize;
                announced(self.missing + PREFIX)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use http::HeaderValue;

    use super::*;

    fn message(bytes: usize) -> Vec<u8> {
        let mut message = vec![0];
        message.extend((bytes as u32).to_be_bytes());
        message.resize(PREFIX + bytes, 0xff);
        message
    }

    #[test]
    fn every_prefix_is_found_however_the_body_is_cut() {
        let body = [message(3), message(0), message(300), message(70_000)].concat();
        for size in [1, 2, 4, 5, 6, 7, 64, 4_096, body.len()] {
            let (mut prefixes, mut found) = (Prefixes::default(), Vec::new());
            for part in body.chunks(size) {
                let scanned = prefixes.scan(part, |bytes| {
                    found.push(bytes);
                    Ok::<_, Infallible>(())
                });
                scanned.unwrap_or_else(|never| match never {});
            }
            assert_eq!(found, [8, 5, 305, 70_005], "in parts of {size}");
        }
    }

    #[test]
    fn a_refused_message_ends_the_scan() {
        let body = [message(1), message(2), message(3)].concat();
        let mut found = Vec::new();
        let scanned = Prefixes::default().scan(&body, |bytes| {
            found.push(bytes);
            if bytes == 7 { Err("refused") } else { Ok(()) }
        });
        assert_eq!((scanned, found), (Err("refused"), vec![6, 7]));
    }

    #[test]
    fn the_content_type_says_how_messages_are_framed() {
        let of = |text: &'static str| {
            Framing::of(&HeaderMap::from_iter([(header::CONTENT_TYPE, HeaderValue::from_static(text))]))
        };
        assert!(matches!(of("application/grpc"), Framing::Prefixed(_)));
        assert!(matches!(of("application/grpc+proto"), Framing::Prefixed(_)));
        assert!(matches!(of("application/grpc-web+proto"), Framing::Prefixed(_)));
        assert!(matches!(of("application/grpc-web-text+proto"), Framing::Base64));
        assert!(matches!(of("application/json"), Framing::Plain));
        assert!(matches!(Framing::of(&HeaderMap::new()), Framing::Plain));
    }
}
